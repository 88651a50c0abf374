package image

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"agentbox/agentbox"
)

// ociError adds a code and a hint to errors of the registry library. The library has types only for
// answers of a registry, so other errors are recognized by their text. Unknown errors get no code.
// Cancellation stays as it is.
func ociError(source string, err error) error {
	var known *agentbox.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var answer *transport.Error
	if errors.As(err, &answer) {
		return answerError(source, answer)
	}
	var netErr net.Error
	var urlErr *url.Error
	if errors.As(err, &netErr) || errors.As(err, &urlErr) {
		return agentbox.Errorf(agentbox.Unavailable, "the registry of %s does not answer: %w", source, err).
			WithHint("check the network and the registry's name")
	}
	var syntax *json.SyntaxError
	switch text := err.Error(); {
	case strings.Contains(text, "verifying sha256") || strings.Contains(text, "error verifying") || strings.Contains(text, "does not match digest"):
		return agentbox.Errorf(agentbox.Corrupt, "image %s arrived with other bytes than its digest says: %w", source, err).
			WithHint("try again; if it stays, the registry or a proxy on the way is broken")
	case strings.Contains(text, "no child with platform"):
		return agentbox.Errorf(agentbox.NotFound, "image %s does not exist for this platform: %w", source, err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, tar.ErrHeader), errors.Is(err, gzip.ErrHeader),
		errors.Is(err, gzip.ErrChecksum), errors.As(err, &syntax), strings.Contains(text, "not found in tar"),
		strings.Contains(text, "flate:"), strings.Contains(text, "unexpected end of JSON"), errors.Is(err, io.EOF):
		return agentbox.Errorf(agentbox.Corrupt, "image %s is not complete: %w", source, err).
			WithHint("%s", againHint(source))
	case strings.Contains(text, "not found in layout"), strings.Contains(text, "tarball must contain only a single image"),
		strings.Contains(text, "no manifest.json"), strings.Contains(text, "tag") && strings.Contains(text, "not found"):
		return agentbox.Errorf(agentbox.NotFound, "image %s: %w", source, err)
	}
	return hostError(err)
}

func againHint(source string) string {
	if strings.HasPrefix(source, "docker-archive:") {
		return "make or copy it again; gunzip one that is compressed, and unpack an OCI archive (tar -x) and import the directory"
	}
	return "make or copy it again"
}

// answerError makes the error for an answer of a registry. Many registries answer "forbidden" for
// images that do not exist.
func answerError(source string, answer *transport.Error) error {
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return agentbox.Errorf(agentbox.Missing, "the registry lets this user not read %s (%d), or there is no such image", source, code).
			WithHint("log in as for docker: `docker login REGISTRY`, or check the name")
	case code == http.StatusNotFound:
		return agentbox.Errorf(agentbox.NotFound, "the registry has no image %s", source).WithHint("check the name and the tag")
	case code == http.StatusTooManyRequests, code >= 500:
		return agentbox.Errorf(agentbox.Unavailable, "the registry of %s is busy or broken (%d)", source, code).WithHint("try again later")
	default:
		return agentbox.Errorf(agentbox.Unavailable, "the registry of %s answers %d", source, code)
	}
}
