package layers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/vmm/image"
)

// indexName is the list of images in a source, beside its pieces.
const indexName = "index.json"

// index is that list.
type index struct {
	Version int           `json:"version"`
	Images  []image.Image `json:"images"`
}

const (
	// maxIndex is in bytes, of a list that a web server sends.
	indexVersion = 1
	maxIndex     = 16 << 20
)

// source is where images are that are not here.
type source interface {
	cachestore.Source
	// list reads indexName.
	list(ctx context.Context) ([]byte, error)
}

// openSource understands what a user wrote: a directory, or the URL of one; else Invalid.
func openSource(from string) (source, error) {
	if !strings.Contains(from, "://") {
		if !filepath.IsAbs(from) {
			return nil, agentbox.Errorf(agentbox.Invalid, "%q is neither an absolute path nor a URL", from)
		}
		return directory{cachestore.Directory(from)}, nil
	}
	u, err := url.Parse(from)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, agentbox.Errorf(agentbox.Invalid, "%q is not the http or https URL of a directory", from)
	}
	return website{u}, nil
}

// directory is a directory of this host, as Export fills it.
type directory struct{ cachestore.Directory }

// list reads the directory's index; NotFound says how one is made.
func (d directory) list(context.Context) ([]byte, error) {
	b, err := d.File(indexName, maxIndex)
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return nil, agentbox.Errorf(agentbox.NotFound, "%s has no list of images (%s)", d.Directory, indexName).
			WithHint("agentbox image export IMAGE %s makes one", d.Directory)
	}
	return b, err
}

// website is a directory behind any static web server: it is asked for single files only.
type website struct{ base *url.URL }

// pieceTimeout is for one piece, or the list: on a link where half a megabyte takes longer, nobody
// works in a box that waits for it.
const pieceTimeout = 30 * time.Second

func (w website) Get(ctx context.Context, d agentbox.Digest, max int) ([]byte, error) {
	return w.get(ctx, d.Hex(), max)
}

func (w website) list(ctx context.Context) ([]byte, error) { return w.get(ctx, indexName, maxIndex) }

// get reads a file of at most max bytes. Unavailable is a server that does not answer or fails,
// NotFound one that has no such file. Credentials in the URL are not in errors.
func (w website) get(ctx context.Context, name string, max int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pieceTimeout)
	defer cancel()
	at := w.base.JoinPath(name)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := webClient.Do(req)
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "%s does not answer: %w", w.base.Redacted(), err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, agentbox.Errorf(agentbox.NotFound, "%s is not at %s", name, w.base.Redacted())
	case resp.StatusCode != http.StatusOK:
		return nil, agentbox.Errorf(agentbox.Unavailable, "%s says %s", w.base.Redacted(), resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, int64(max)+1))
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Unavailable, "%s breaks off: %w", w.base.Redacted(), err)
	}
	if len(b) > max {
		return nil, agentbox.Errorf(agentbox.Corrupt, "%s at %s has more than %d bytes", name, w.base.Redacted(), max)
	}
	return b, nil
}

// webClient asks websites. It does not follow a redirect from https to http: pieces are checked by
// their digests, but nothing except the connection vouches for the list of images.
var webClient = &http.Client{CheckRedirect: func(req *http.Request, via []*http.Request) error {
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return errors.New("it redirects from https to " + req.URL.Scheme)
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	}
	return nil
}}

// maxRedirects is what net/http allows by itself.
const maxRedirects = 10

// encode is what a file of this package holds, of a value that says its version.
func encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", " ")
	return append(b, '\n'), err
}

// decodeIndex reads a list of images that somebody else wrote; Corrupt for what it refuses.
func decodeIndex(b []byte) ([]image.Image, error) {
	var x index
	if err := json.Unmarshal(b, &x); err != nil {
		return nil, agentbox.Classify(agentbox.Corrupt, "the list of images cannot be read: %w", err)
	}
	if x.Version != indexVersion {
		return nil, agentbox.Classify(agentbox.Corrupt, "the list of images has version %d, this agentbox knows %d", x.Version, indexVersion)
	}
	for _, img := range x.Images {
		if img.Digest.IsZero() || img.Size <= 0 || img.Lazy == nil || img.Lazy.Manifest.IsZero() {
			return nil, agentbox.Classify(agentbox.Corrupt, "the list of images says too little of %q", img.Name)
		}
		if err := checkText(img); err != nil {
			return nil, err
		}
	}
	return x.Images, nil
}
