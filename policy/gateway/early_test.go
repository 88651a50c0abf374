package gateway

import (
	"io"
	"net/http"
	"testing"
)

// A server that answers before it has the whole request is heard to the end, though its client
// sends nothing more when it sees that it need not.
func TestEarlyAnswer(t *testing.T) {
	const says = "enough"
	w := newWorld(t, withToken(grants("a.test"), "https://a.test"))
	w.serveTLS(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(rw, says)
	}))
	rest, client := io.Pipe()
	defer client.Close()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a.test/upload", rest)
	res, err := w.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != says || res.ProtoMajor != 2 {
		t.Errorf("%s %q %v", res.Proto, b, err)
	}
}
