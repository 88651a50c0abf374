package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What go test -json prints: a test with two parts, one of which fails, a parallel one, one that is
// skipped, one during which the program died, and a line that is no event.
const printed = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"T"}
{"Action":"run","Package":"a","Test":"T/one"}
{"Action":"output","Package":"a","Test":"T/one","Output":"one says\n"}
{"Action":"pass","Package":"a","Test":"T/one","Elapsed":3}
{"Action":"run","Package":"a","Test":"T/two"}
{"Action":"output","Package":"a","Test":"T/two","Output":"two is broken\n"}
{"Action":"fail","Package":"a","Test":"T/two","Elapsed":4}
{"Action":"fail","Package":"a","Test":"T","Elapsed":7}
{"Action":"run","Package":"a","Test":"P"}
{"Action":"pause","Package":"a","Test":"P"}
{"Action":"cont","Package":"a","Test":"P"}
{"Action":"pass","Package":"a","Test":"P","Elapsed":5}
{"Action":"skip","Package":"a","Test":"S","Elapsed":9}
{"Action":"run","Package":"a","Test":"X"}
{"Action":"output","Package":"a","Test":"X","Output":"panic: X\n"}
{"Action":"output","Package":"a","Output":"FAIL\n"}
{"Action":"output","Package":"a","Output":"FAIL\ta\t12s\n"}
{"Action":"fail","Package":"a","Elapsed":12}
go: something is missing
`

func TestLongest(t *testing.T) {
	var out strings.Builder
	clock := 0.0
	r := newReader(&out, func() float64 { clock++; return clock })
	if err := r.read(strings.NewReader(printed)); err != nil {
		t.Fatal(err)
	}
	if want := "two is broken\nFAIL\ta\t12s\npanic: X\ngo: something is missing\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	file := filepath.Join(t.TempDir(), "took")
	if err := keep(file, r.tests[:1]); err != nil {
		t.Fatal(err)
	}
	if err := keep(file, r.tests[1:]); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := show(&out, file); err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(out.String(), "\n")
	if want := "    5.0 s     1.0 s  a P\n    4.0 s     1.0 s  a T/two\n    3.0 s     1.0 s  a T/one\n"; list != want {
		t.Errorf("listed\n%swant\n%s", list, want)
	}
}
