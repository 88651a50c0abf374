package identity

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"agentbox/agentbox"
)

func TestDecodeArrayIsBounded(t *testing.T) {
	for in, want := range map[string][]int{"null": nil, "[]": nil, "[1]": {1}, " [1, 2,3 ] ": {1, 2, 3}} {
		if got, err := DecodeArray[int]([]byte(in), 3); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "{}", "7", "[1", "[1,2,3,4]", `["a"]`, "[1}"} {
		if got, err := DecodeArray[int]([]byte(in), 3); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
}

// A list of a million entries that say nothing is refused before there are a million of them.
func TestEmptyEntriesTakeLittleMemory(t *testing.T) {
	root := key(1)
	empty, err := NewList(public(root)).Encode()
	if err != nil {
		t.Fatal(err)
	}
	many := append(bytes.Repeat([]byte("{},"), MaxList/4), "{}"...)
	b := bytes.Replace(empty, []byte(`null`), slices.Concat([]byte("["), many, []byte("]")), 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = DecodeList(b, TeamOf(public(root)))
	runtime.ReadMemStats(&after)
	if agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Error(err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4*MaxList {
		t.Errorf("it took %d bytes to refuse %d", n, len(b))
	}
}
