package sources

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

// Sources serves the calls about sources, and gives back those that no box and no task needs.
type Sources struct{ *source.Store }

func (s Sources) Handle(mux *http.ServeMux) {
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
		return json.NewEncoder(out).Encode(Describe(c, agentbox.SourceRef{Digest: c.Digest()}))
	})
}

func (s Sources) capture(ctx context.Context, req api.CaptureRequest, _ agentbox.Progress) (api.CapturedSource, error) {
	c, ref, release, err := s.CaptureIn(ctx, req.Directory)
	if err != nil {
		return api.CapturedSource{}, err
	}
	defer release()
	return Describe(c, ref), nil
}

// CaptureIn captures the checkout that a directory belongs to. The source stays until release is called.
func (s Sources) CaptureIn(ctx context.Context, directory string) (c source.Captured, ref agentbox.SourceRef, release func(), err error) {
	repo, err := workspace.Describe(ctx, directory)
	if err != nil {
		return c, ref, nil, err
	}
	p, err := project.Identify(ctx, repo.Root)
	if err != nil {
		return c, ref, nil, err
	}
	c, release, err = s.Capture(ctx, repo, p.Name)
	return c, agentbox.SourceRef{Digest: c.Digest(), Directory: repo.Root, Subdir: repo.Subdir}, release, err
}

// In serves a call about a checkout, for which a source may stand.
func In[Req, Resp any, P interface {
	*Req
	api.InSource
}](s Sources, f api.Func[Req, Resp]) api.Func[Req, Resp] {
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

// Checkout makes a source of kept work. Who goes on commits as the checkout in author does.
func (s Sources) Checkout(ctx context.Context, kept snapshot.Kept, projectName, branch, author string) (source.Captured, func(), error) {
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

func Describe(c source.Captured, ref agentbox.SourceRef) api.CapturedSource {
	repo := c.Repo()
	return api.CapturedSource{Source: ref, Project: c.Project(), Branch: repo.Branch, Commit: repo.Commit, Notes: c.Notes()}
}

// ProjectOf is the project of the checkout that contains dir; Invalid if dir is in no checkout.
func ProjectOf(ctx context.Context, dir string) (project.Project, error) {
	repo, err := workspace.Describe(ctx, dir)
	if err != nil {
		return project.Project{}, err
	}
	return project.Identify(ctx, repo.Root)
}
