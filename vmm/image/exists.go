package image

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// existsTime bounds how long Exists waits for a registry.
const existsTime = 5 * time.Second

// Exists asks a public registry, without credentials, whether it has an image. An error means that
// it did not say.
func Exists(ctx context.Context, source string) (bool, error) {
	ref, err := name.ParseReference(source)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, existsTime)
	defer cancel()
	return exists(ref, remote.WithContext(ctx), remote.WithTransport(publicTransport()), remote.WithUserAgent("agentbox"))
}

func exists(ref name.Reference, options ...remote.Option) (bool, error) {
	_, err := remote.Head(ref, options...)
	if refused, ok := errors.AsType[*transport.Error](err); ok && refused.StatusCode == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}
