package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"agentbox/agentbox"
)

// CaptureSource makes a source of a checkout as it is now (package source). It stays for a while
// without anybody who needs it.
var CaptureSource = Endpoint[CaptureRequest, CapturedSource]{"/v1/source/capture"}

// SourceOfTask makes a source of what a task left, as it was in its box at the end: with what was
// uncommitted then. It is Conflict for a task that has not ended, and NotFound for one without work.
var SourceOfTask = Endpoint[TaskSourceRequest, CapturedSource]{"/v1/source/task"}

// TaskSourceRequest names a task, and where its user is. In a checkout of its project, boxes of the
// source are remotes of that checkout.
type TaskSourceRequest struct {
	TaskRef
	Directory string `json:"directory,omitempty"`
}

// The calls that bring a source to another machine: POST PATH?digest=DIGEST, where request and
// answer are streams. See package source and SendSource.
const (
	SourceManifest = "/v1/source/manifest" // answers with the manifest
	MissingFiles   = "/v1/source/missing"  // takes a manifest, and answers with digests, one a line
	ExportSource   = "/v1/source/export"   // takes digests, and answers with a stream
	ImportSource   = "/v1/source/import"   // takes a stream, and answers with a CapturedSource
)

// InSource is a request about the checkout at a directory, or about a source instead of it.
type InSource interface {
	Checkout() (directory *string, source *agentbox.SourceRef)
}

// Checkout implements InSource.
func (p *PolicyRef) Checkout() (*string, *agentbox.SourceRef) { return &p.Directory, p.Source }

// Checkout implements InSource.
func (i *ImageBuildRequest) Checkout() (*string, *agentbox.SourceRef) { return &i.Directory, i.Source }

// CaptureRequest names a checkout by a directory in it.
type CaptureRequest struct {
	Directory string `json:"directory"`
}

// CapturedSource is a source that is on this machine.
type CapturedSource struct {
	Source  agentbox.SourceRef `json:"source"`
	Project string             `json:"project"` // its canonical name
	Branch  string             `json:"branch"`
	Commit  string             `json:"commit,omitempty"`
	Notes   []string           `json:"notes,omitempty"` // what was left out, and why
}

// StreamFunc serves a call whose request and answer are streams. An error after the first byte of
// the answer cuts it short, so answers have an end that can be recognized.
type StreamFunc func(ctx context.Context, d agentbox.Digest, in io.Reader, out io.Writer) error

// HandleStream registers f for a path. d is zero for a call without a digest.
func HandleStream(mux *http.ServeMux, path string, f StreamFunc) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var d agentbox.Digest
		var err error
		if text := r.URL.Query().Get("digest"); text != "" {
			d, err = agentbox.ParseDigest(text)
		}
		out := &streamWriter{w: w}
		if err == nil {
			err = f(r.Context(), d, r.Body, out)
		}
		switch {
		case err == nil:
		case out.begun:
			panic(http.ErrAbortHandler) // the connection closes, which the reader sees
		default:
			(&stream[None]{w: w, enc: json.NewEncoder(w)}).fail(shutdownError(r.Context(), err))
		}
	})
}

// streamWriter knows whether the answer has begun.
type streamWriter struct {
	w     http.ResponseWriter
	begun bool
}

func (s *streamWriter) Write(p []byte) (int, error) {
	s.begun = true
	return s.w.Write(p)
}

// Stream calls a path of HandleStream. The caller closes the answer. Errors are those of Call.
func (c *Client) Stream(ctx context.Context, path string, d agentbox.Digest, in io.Reader) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path+"?digest="+d.String(), in)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(ctx, path, err)
	}
	if resp.Header.Get("Content-Type") == contentType {
		defer resp.Body.Close()
		_, err = readAnswer[None](ctx, c, path, json.NewDecoder(resp.Body), nil)
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, agentbox.Errorf(agentbox.Unavailable, "the process at %s does not know %s", c.socket, path).
			WithHint("it is of another version: agentbox daemon stop")
	}
	return resp.Body, nil
}

// SendSource brings a source from one daemon to another, without the files that are there already.
// The answer names it there.
func SendSource(ctx context.Context, from, to *Client, ref agentbox.SourceRef) (out CapturedSource, err error) {
	d := ref.Digest
	manifest, err := readStream(ctx, from, SourceManifest, d, nil)
	if err != nil {
		return out, err
	}
	missing, err := readStream(ctx, to, MissingFiles, agentbox.Digest{}, bytes.NewReader(manifest))
	if err != nil {
		return out, err
	}
	files, err := from.Stream(ctx, ExportSource, d, bytes.NewReader(missing))
	if err != nil {
		return out, err
	}
	defer files.Close()
	answer, err := readStream(ctx, to, ImportSource, d, files)
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	if err == nil && out.Source.Digest != d {
		err = agentbox.Errorf(agentbox.Corrupt, "what arrived is %s, not %s", out.Source.Digest.Short(), d.Short())
	}
	out.Source.Directory, out.Source.Subdir, out.Source.Elsewhere = ref.Directory, ref.Subdir, true
	return out, err
}

func readStream(ctx context.Context, c *Client, path string, d agentbox.Digest, in io.Reader) ([]byte, error) {
	answer, err := c.Stream(ctx, path, d, in)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	b, err := io.ReadAll(answer)
	if err != nil {
		return nil, c.unreachable(ctx, path, err)
	}
	return b, nil
}

// ParseDigests reads digests, one a line. The error is Invalid.
func ParseDigests(in io.Reader) ([]agentbox.Digest, error) {
	b, err := io.ReadAll(in)
	var all []agentbox.Digest
	for line := range strings.Lines(string(b)) {
		d, parseErr := agentbox.ParseDigest(strings.TrimSpace(line))
		if parseErr != nil {
			return nil, agentbox.Errorf(agentbox.Invalid, "%q is no digest", line)
		}
		all = append(all, d)
	}
	return all, err
}

// SourceOfCommit makes a source of a commit that a checkout has, as that branch, for boxes apart from the
// checkout's own.
var SourceOfCommit = Endpoint[CommitRef, CapturedSource]{"/v1/source/commit"}

// CommitRef names a commit of a checkout, by its whole name.
type CommitRef struct {
	Directory string `json:"directory"`
	Commit    string `json:"commit"`
	Branch    string `json:"branch"`
}
