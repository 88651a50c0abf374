package gateway

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"agentbox/agentbox"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// coded gives text in a coding of HTTP.
func coded(t testing.TB, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "deflate":
		w = zlib.NewWriter(&b)
	case "zstd":
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	case "br":
		w = brotli.NewWriter(&b)
	default:
		w = gzip.NewWriter(&b)
	}
	_, err := io.WriteString(w, text)
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.String()
}

// tapAnswer passes a body through the reading, and gives what came out and what was told.
func tapAnswer(t testing.TB, coding string, events bool, body io.Reader, slots decoders) (out, model string, got agentbox.Tokens) {
	t.Helper()
	res := &http.Response{Header: http.Header{"Content-Encoding": {coding}, "Content-Type": {"application/json"}}}
	if events {
		res.Header.Set("Content-Type", "text/event-stream")
	}
	told := 0
	r := readUsage(res, io.NopCloser(body), slots, func(m string, u agentbox.Tokens) { told, model, got = told+1, m, u })
	b, err := io.ReadAll(r)
	if err != nil || r.Close() != nil || told != 1 {
		t.Fatalf("%s: %v, told %d times", coding, err, told)
	}
	return string(b), model, got
}

func TestUsageOfCompressedAnswers(t *testing.T) {
	slots := newDecoders()
	for _, coding := range append(contentCodings, "GZIP") {
		for what, a := range answers {
			body := coded(t, strings.ToLower(coding), a.body)
			for name, r := range map[string]io.Reader{"whole": strings.NewReader(body), "bytewise": iotest.OneByteReader(strings.NewReader(body)), "with its end": iotest.DataErrReader(strings.NewReader(body))} {
				if out, model, got := tapAnswer(t, coding, a.events, r, slots); out != body || model != a.model || got != a.want {
					t.Errorf("%s, %s, %s: %q %+v", coding, what, name, model, got)
				}
			}
		}
	}
	if len(slots) != 0 {
		t.Errorf("%d decoders were not given back", len(slots))
	}
}

// What cannot be read, or not within bounds, passes all the same, and counts as an answer that did
// not say.
func TestUnreadableCompressedAnswersPass(t *testing.T) {
	const usage = `"usage":{"input_tokens":5}}`
	said, unsaid := agentbox.Tokens{Answers: 1, Input: 5}, agentbox.Tokens{Answers: 1, Unreported: 1}
	bomb := `{"padding":"` + strings.Repeat("0", maxDecoded) + `",` + usage
	var wide bytes.Buffer
	z, err := zstd.NewWriter(&wide, zstd.WithWindowSize(2*maxWindow), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, "{"+usage+strings.Repeat(" ", 3*maxWindow)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	var brotliLargeWindow bytes.Buffer
	w := brotli.NewWriterOptions(&brotliLargeWindow, brotli.WriterOptions{LGWin: 24})
	if _, err := io.WriteString(w, "{"+usage+strings.Repeat(" ", 3*maxWindow)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	zipped, pressed := coded(t, "gzip", "{"+usage), coded(t, "br", "{"+usage)
	for what, a := range map[string]struct {
		coding, body string
		want         agentbox.Tokens
	}{
		"sound":              {"gzip", zipped, said},
		"gzip bomb":          {"gzip", coded(t, "gzip", bomb), unsaid},
		"zstd bomb":          {"zstd", coded(t, "zstd", bomb), unsaid},
		"brotli bomb":        {"br", coded(t, "br", bomb), unsaid},
		"too wide a window":  {"zstd", wide.String(), unsaid},
		"widest of brotli":   {"br", brotliLargeWindow.String(), unsaid},
		"another than said":  {"br", zipped, unsaid},
		"cut brotli":         {"br", pressed[:len(pressed)/2], unsaid},
		"garbage behind br":  {"br", pressed + "garbage", said},
		"no brotli":          {"br", "", unsaid},
		"compress":           {"compress", zipped, unsaid},
		"twice":              {"gzip, gzip", coded(t, "gzip", zipped), unsaid},
		"none after all":     {"gzip", "{" + usage, unsaid},
		"cut":                {"gzip", zipped[:len(zipped)/2], unsaid},
		"garbage behind it":  {"gzip", zipped + "garbage", said},
		"nothing":            {"deflate", "", unsaid},
		"another's checksum": {"gzip", zipped[:len(zipped)-8] + "12345678", said},
	} {
		slots := newDecoders()
		if out, _, got := tapAnswer(t, a.coding, false, strings.NewReader(a.body), slots); out != a.body || got != a.want || len(slots) != 0 {
			t.Errorf("%s: %d bytes of %d, %+v", what, len(out), len(a.body), got)
		}
	}
	full := newDecoders()
	for range cap(full) {
		full <- struct{}{}
	}
	if out, _, got := tapAnswer(t, "gzip", false, strings.NewReader(zipped), full); out != zipped || got != unsaid {
		t.Errorf("with no decoder free: %+v", got)
	}
}

func TestModelRequestCodings(t *testing.T) {
	for had, want := range map[string]string{
		"gzip, deflate, br, zstd": "gzip, deflate, br, zstd", "br;q=1.0, compress;q=0.9, gzip ; q=0.8, *;q=0.1": "br;q=1.0, gzip ; q=0.8", "compress": "identity", "*": "identity", "identity": "identity",
	} {
		h := http.Header{"Accept-Encoding": {had}, extensions: {"permessage-deflate"}}
		if restrictCodings(h); h.Get("Accept-Encoding") != want || h.Get(extensions) != "" {
			t.Errorf("%s: %v", had, h)
		}
	}
	h := http.Header{}
	if restrictCodings(h); len(h) != 0 {
		t.Errorf("%v", h)
	}
}

// Whatever a server sends in whatever coding passes as it is, in pieces of any size, and what is
// said of it is bounded.
func FuzzCoded(f *testing.F) {
	for _, a := range answers {
		for i, coding := range contentCodings {
			f.Add([]byte(coded(f, coding, a.body)), i, a.events, 3)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, coding int, events bool, step int) {
		if coding < 0 || coding >= len(contentCodings) || step < 1 || step > 1<<16 {
			return
		}
		slots := newDecoders()
		out, model, got := tapAnswer(t, contentCodings[coding], events, &steps{b, step}, slots)
		if out != string(b) || len(slots) != 0 || got.Answers != 1 {
			t.Fatalf("%d bytes of %d, %+v", len(out), len(b), got)
		}
		if got.Total() < 0 || got.Total() > 10*maxTokens || len(model) > maxModelName || model != "" && !isModelName(model) {
			t.Fatalf("%q %+v", model, got)
		}
		if contentCodings[coding] == "br" {
			if _, err := io.Copy(io.Discard, brotli.NewReader(bytes.NewReader(b))); err != nil {
				return // how much comes out before the damage is seen depends on how it is cut
			}
		}
		if _, again, twice := tapAnswer(t, contentCodings[coding], events, bytes.NewReader(b), slots); again != model || twice != got {
			t.Fatalf("cut it says %q %+v, whole %q %+v", model, got, again, twice)
		}
	})
}
