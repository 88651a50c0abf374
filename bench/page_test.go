package bench

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// hostileReport is what a repository and a box could make of a report.
func hostileReport() Report {
	r := sampleReport()
	evil := `"><script>alert(1)</script><img src=http://x.example/ onerror=alert(1)>`
	r.Version, r.Machine.Kernel = evil, evil
	r.Scenarios[0].Name, r.Scenarios[0].Isolation, r.Scenarios[0].Reasons = evil, evil, []string{evil}
	r.Timeline = []Point{{At: 0, CPU: 0.5}, {At: 1, CPU: 2, Stall: -1, Boxes: 9}}
	r.Phases = []Phase{{evil, 100}, {"machine", 300}}
	r.Checks = []Check{{Name: evil, Isolation: "gvisor", Reason: evil, Out: evil, Why: evil}}
	r.Missing = []Missing{{evil, evil}}
	return r
}

func TestPageGolden(t *testing.T) {
	r := sampleReport()
	r.Timeline, r.Phases = hostileReport().Timeline, []Phase{{"workspace", 100}, {"machine", 300}}
	var got bytes.Buffer
	courses := []Course{{Name: "work/test", Isolation: "gvisor", Unit: Milliseconds, P50: []float64{100, 150, 120}}, {Name: "work/once", Unit: Bytes, P50: []float64{0}, Outcome: Slower}}
	if err := r.WritePage(&got, "old.json", &r, courses); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/page.html", got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/page.html")
	if err != nil || got.String() != string(want) {
		t.Errorf("testdata/page.html differs (go test ./bench -update rewrites it): %v", err)
	}
}

// Nothing of a repository or a box becomes markup, and the page asks for nothing from elsewhere.
func TestPageEscapes(t *testing.T) {
	r := hostileReport()
	var b bytes.Buffer
	courses := []Course{{Name: r.Version, Isolation: r.Version, Unit: r.Version, P50: []float64{1, 1}}}
	if err := r.WritePage(&b, r.Version, &r, courses); err != nil {
		t.Fatal(err)
	}
	tokens := html.NewTokenizer(&b)
	for tokens.Next() != html.ErrorToken {
		token := tokens.Token()
		if token.Type == html.StartTagToken && slices.Contains([]string{"script", "img", "link", "iframe", "object", "a", "form"}, token.Data) {
			t.Errorf("the page has %s", token)
		}
		for _, a := range token.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" || a.Key == "style" || strings.Contains(a.Val, "NaN") || strings.Contains(a.Val, "Inf") {
				t.Errorf("the page has %s", token)
			}
		}
	}
	if err := tokens.Err(); err != io.EOF {
		t.Error(err)
	}
}

func TestParsePhases(t *testing.T) {
	got := parsePhases("note: x\n- workspace    0.25 s  20 files\n- machine      1m2s  gvisor\n- odd\n- strange words here\nagentbox: 5 s\n")
	if len(got) != 2 || got[0] != (Phase{"workspace", 250}) || got[1] != (Phase{"machine", 62000}) {
		t.Errorf("%+v", got)
	}
}
