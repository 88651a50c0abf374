package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/git"
	"agentbox/agentbox/project"
	"agentbox/agentbox/snapshot"
	"agentbox/agentbox/source"
	"agentbox/agentbox/workspace"
)

// sources serves the calls about sources, and gives back those that no box and no task needs.
type sources struct{ *source.Store }

func (s sources) handle(mux *http.ServeMux) {
	api.Handle(mux, api.CaptureSource, s.capture)
	api.HandleStream(mux, api.SourceManifest, func(_ context.Context, d agentbox.Digest, _ io.Reader, out io.Writer) error {
		return s.Manifest(d, out)
	})
	api.HandleStream(mux, api.MissingFiles, func(_ context.Context, _ agentbox.Digest, in io.Reader, out io.Writer) error {
		missing, err := s.Missing(in)
		for _, d := range missing {
			fmt.Fprintln(out, d)
		}
		return err
	})
	api.HandleStream(mux, api.ExportSource, func(ctx context.Context, d agentbox.Digest, in io.Reader, out io.Writer) error {
		lacking, err := api.ParseDigests(in)
		if err != nil {
			return err
		}
		return s.Export(ctx, d, lacking, out)
	})
	api.HandleStream(mux, api.ImportSource, func(ctx context.Context, _ agentbox.Digest, in io.Reader, out io.Writer) error {
		c, release, err := s.Import(ctx, in)
		if err != nil {
			return err
		}
		defer release()
		return json.NewEncoder(out).Encode(describeSource(c, agentbox.SourceRef{Digest: c.Digest()}))
	})
}

func (s sources) capture(ctx context.Context, req api.CaptureRequest, _ agentbox.Progress) (api.CapturedSource, error) {
	c, ref, release, err := s.captureIn(ctx, req.Directory)
	if err != nil {
		return api.CapturedSource{}, err
	}
	defer release()
	return describeSource(c, ref), nil
}

// captureIn captures the checkout that a directory belongs to. The source stays until release is called.
func (s sources) captureIn(ctx context.Context, directory string) (c source.Captured, ref agentbox.SourceRef, release func(), err error) {
	repo, err := workspace.Describe(ctx, directory)
	if err != nil {
		return c, ref, nil, err
	}
	p, err := project.Identify(repo.Root)
	if err != nil {
		return c, ref, nil, err
	}
	c, release, err = s.Capture(ctx, repo, p.Name)
	return c, agentbox.SourceRef{Digest: c.Digest(), Directory: repo.Root, Subdir: repo.Subdir}, release, err
}

// inSource serves a call about a checkout, for which a source may stand.
func inSource[Req, Resp any, P interface {
	*Req
	api.InSource
}](s sources, f api.Func[Req, Resp]) api.Func[Req, Resp] {
	return func(ctx context.Context, req Req, progress agentbox.Progress) (resp Resp, err error) {
		directory, ref := P(&req).Checkout()
		if ref == nil {
			return f(ctx, req, progress)
		}
		c, release, err := s.Open(ctx, ref.Digest)
		if err != nil {
			return resp, err
		}
		defer release()
		*directory = c.Directory(ref.Subdir)
		resp, err = f(ctx, req, progress)
		if report, ok := any(&resp).(*api.PolicyReport); ok && err == nil {
			report.Directory = ref.Directory // where the user has it
		}
		return resp, err
	}
}

// checkout makes a source of kept work. Who goes on commits as the checkout in author does.
func (s sources) checkout(ctx context.Context, kept snapshot.Kept, projectName, branch, author string) (source.Captured, func(), error) {
	return s.Make(ctx, projectName, func(dir, like string) error {
		if err := snapshot.Checkout(ctx, kept, branch, dir, like); err != nil {
			return err
		}
		return configure(ctx, author, dir)
	})
}

// configure gives a checkout what boxes have in their git's configuration, and the name and address with
// which commits are made in another one, or, if that is gone, by this machine's user.
func configure(ctx context.Context, from, to string) error {
	repo, err := workspace.Describe(ctx, from)
	if err != nil {
		repo, err = workspace.Describe(ctx, to)
	}
	if err != nil {
		return err
	}
	settings, err := workspace.Settings(ctx, repo)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(to, ".git", "config"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(git.FormatConfig(settings)) // the last value of a setting counts
	return errors.Join(err, f.Close())
}

func describeSource(c source.Captured, ref agentbox.SourceRef) api.CapturedSource {
	repo := c.Repo()
	return api.CapturedSource{Source: ref, Project: c.Project(), Branch: repo.Branch, Commit: repo.Commit, Notes: c.Notes()}
}

// projectOf is the project of the checkout that contains dir; Invalid if dir is in no checkout.
func projectOf(ctx context.Context, dir string) (project.Project, error) {
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return project.Project{}, err
	}
	return project.Identify(repo.Root)
}
