package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"agentbox/agentbox"
)

// Download is a call that answers with bytes, such as a log: its path and the type of its request.
// The bytes are the body of the answer. An error before the first of them is an answer like that
// of an Endpoint; a later one is in the trailer.
type Download[Req any] struct {
	Path string
}

// DownloadFunc serves a download: it writes the bytes to w, each write of which reaches the client at
// once. Its context ends when the client disconnects.
type DownloadFunc[Req any] func(ctx context.Context, req Req, w io.Writer) error

const (
	bytesType    = "application/octet-stream"
	errorTrailer = "Agentbox-Error" // an agentbox.Error as JSON, in one line
)

// HandleDownload registers f for a download. What Handle says of requests is true of these, too.
func HandleDownload[Req any](mux *http.ServeMux, s Download[Req], f DownloadFunc[Req]) {
	mux.HandleFunc("POST "+s.Path, func(w http.ResponseWriter, r *http.Request) {
		AnswerBytes(w, r, func(out io.Writer) error {
			req, err := readRequest[Req](w, r)
			if err != nil {
				return err
			}
			return f(r.Context(), req, out)
		})
	})
}

// AnswerBytes answers one request with the bytes that f writes.
func AnswerBytes(w http.ResponseWriter, r *http.Request, f func(io.Writer) error) {
	out := &bytesWriter{w: w}
	err := f(out)
	switch {
	case err != nil && !out.begun:
		newStream[None](w).fail(shutdownError(r.Context(), err))
	case err != nil:
		text, _ := json.Marshal(agentbox.AsError(shutdownError(r.Context(), err)))
		w.Header().Set(errorTrailer, string(text))
	case !out.begun:
		out.begin()
	}
}

// bytesWriter writes the body of a download.
type bytesWriter struct {
	w     http.ResponseWriter
	begun bool
}

func (b *bytesWriter) begin() {
	b.begun = true
	b.w.Header().Set("Content-Type", bytesType)
	b.w.Header().Set("Trailer", errorTrailer)
	b.w.WriteHeader(http.StatusOK)
}

// Write implements io.Writer.
func (b *bytesWriter) Write(p []byte) (int, error) {
	if !b.begun {
		b.begin()
	}
	n, err := b.w.Write(p)
	return n, errors.Join(err, http.NewResponseController(b.w).Flush())
}

// Read calls a download and writes its bytes to w until it ends. Errors are those of Call; one of w
// is returned as it is. If the server dies, the error is Unavailable, although bytes have arrived.
func Read[Req any](ctx context.Context, c *Client, s Download[Req], req Req, w io.Writer) error {
	r, err := c.newRequest(ctx, s.Path, req)
	if err != nil {
		return err
	}
	resp, err := c.send(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != bytesType {
		_, err := readAnswer[None](ctx, c, s.Path, json.NewDecoder(resp.Body), nil)
		return err
	}
	var lost readError
	if _, err := io.Copy(w, lost.of(resp.Body)); err != nil && lost.err == nil {
		return err
	}
	if lost.err != nil {
		return c.unreachable(ctx, s.Path, lost.err)
	}
	if text := resp.Trailer.Get(errorTrailer); text != "" {
		return decodeError(text)
	}
	return nil
}

// decodeError returns the error in a trailer.
func decodeError(text string) error {
	e := new(agentbox.Error)
	if err := json.Unmarshal([]byte(text), e); err != nil {
		return agentbox.Errorf(agentbox.Internal, "the answer ended with an error that is no JSON: %w", err)
	}
	return e
}

// readError tells the end of a reader from an error of the writer that its bytes were copied to.
type readError struct {
	r   io.Reader
	err error
}

func (re *readError) of(r io.Reader) io.Reader {
	re.r = r
	return re
}

// Read implements io.Reader.
func (re *readError) Read(p []byte) (int, error) {
	n, err := re.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		re.err = err
	}
	return n, err
}
