package setup

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestLineWriter(t *testing.T) {
	long := strings.Repeat("0123456789", maxLine/4) // two and a half pieces
	for name, c := range map[string]struct {
		writes []string
		said   []string
	}{
		"nothing":            {nil, nil},
		"a line":             {[]string{"a\n"}, []string{"a"}},
		"a line in pieces":   {[]string{"a", "b", "c\nd"}, []string{"abc", "d"}},
		"lines at once":      {[]string{"a\n\nb\r\n"}, []string{"a", "", "b"}},
		"no newline at end":  {[]string{"a\nb\r"}, []string{"a", "b"}},
		"as long as it gets": {[]string{long[:maxLine] + "\n"}, []string{long[:maxLine]}},
		"too long":           {[]string{long}, []string{long[:maxLine], long[maxLine : 2*maxLine], long[2*maxLine:]}},
		"too long, a line":   {[]string{long + "\nb\n"}, []string{long[:maxLine], long[maxLine : 2*maxLine], long[2*maxLine:], "b"}},
		"too long, bit by bit": {strings.SplitAfter(long+"\n", "9"),
			[]string{long[:maxLine], long[maxLine : 2*maxLine], long[2*maxLine:]}},
	} {
		t.Run(name, func(t *testing.T) {
			log, err := os.Create(filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			var output []string
			l := &lineWriter{log: log, report: func(s string) { output = append(output, s) }}
			for _, w := range c.writes {
				if n, err := l.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("%d, %v", n, err)
				}
			}
			l.flush()
			l.flush()
			if !reflect.DeepEqual(output, c.said) {
				t.Errorf("said %.60q, want %.60q", output, c.said)
			}
			if b, err := os.ReadFile(log.Name()); err != nil || string(b) != strings.Join(c.writes, "") {
				t.Errorf("logged %.60q, %v", b, err)
			}
		})
	}
}
