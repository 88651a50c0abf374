package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// imageCommand groups the verbs about images. They are the daemon's to make and remove; what is
// done here is to make paths absolute, as its current directory is not ours.
func (a *app) imageCommand() *cli.Command {
	return &cli.Command{
		Name: "image", Category: catHost, Usage: "build, pull, import, export, list, show and remove images",
		Commands: []*cli.Command{a.imageBuild(), a.imagePull(), a.imageImport(), a.imageExport(), a.imageLs(), a.imageShow(), a.imageRm()},
	}
}

// imageBuild is `image build`: what up would do first, without the box. With --update the pin in
// agentbox.lock is replaced.
func (a *app) imageBuild() *cli.Command {
	var req api.ImageBuildRequest
	return &cli.Command{
		Name: "build", Usage: "make the image this directory's configuration asks for",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "update", Usage: "make it anew and replace the pin in agentbox.lock", Destination: &req.Update}},
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			if req.Directory, err = here(); err != nil {
				return err
			}
			req.Environ = os.Environ()
			return tell(ctx, a, api.BuildImage, req, imageFacts)
		},
	}
}

// imagePull is `image pull`, from a registry or, with --from, from what imageExport filled. Only
// the latter can come lazily: a registry gives layers, of which the image has to be made first.
func (a *app) imagePull() *cli.Command {
	var req api.ImageFetchRequest
	return &cli.Command{
		Name: "pull", Usage: "fetch an image from a registry, or from where `image export` put it", ArgsUsage: "REFERENCE | --from PLACE [IMAGE]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "a directory that `agentbox image export` filled, or its URL", Destination: &req.From},
			&cli.BoolFlag{Name: "lazy", Usage: "only what a box reads, when it reads it; the rest once the box is quiet", Destination: &req.Lazy},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if req.From != "" {
				return a.fetchFrom(ctx, req, cmd.Args().Slice())
			}
			if cmd.Args().Len() != 1 {
				return agentbox.Errorf(agentbox.Invalid, "pull takes one reference").WithHint("agentbox image pull NAME:TAG")
			}
			// Said before anything is fetched: the user has a reason for it, a slow link say.
			if req.Lazy {
				return agentbox.Errorf(agentbox.Invalid, "a registry gives whole images only").WithHint("agentbox image pull --lazy --from DIRECTORY")
			}
			return a.fetchImage(ctx, cmd.Args().First())
		},
	}
}

// fetchFrom gets an image from a directory or URL. Without a name there has to be one image only.
func (a *app) fetchFrom(ctx context.Context, req api.ImageFetchRequest, args []string) (err error) {
	if len(args) > 1 {
		return agentbox.Errorf(agentbox.Invalid, "pull --from takes one image").WithHint("agentbox image pull --from %s", req.From)
	}
	// Which of several images at that place is meant.
	if len(args) == 1 {
		req.Image = args[0]
	}
	if req.From, err = placeOf(req.From); err != nil {
		return err
	}
	return tell(ctx, a, api.FetchImage, req, imageFacts)
}

// placeOf is what the daemon understands of a directory or URL that a user named: an absolute path,
// or the URL as it is. "" stays "".
func placeOf(from string) (string, error) {
	if from == "" || strings.Contains(from, "://") {
		return from, nil
	}
	return filepath.Abs(from)
}

// imageExport is `image export`. What it writes can be served by any web server; see
// docs/images.md.
func (a *app) imageExport() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "write an image into a directory, for `image pull --from`", ArgsUsage: "IMAGE DIRECTORY",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			dir, err := filepath.Abs(cmd.Args().Get(1))
			if err != nil {
				return err
			}
			return tell(ctx, a, api.ExportImage, api.ImageExportRequest{Image: cmd.Args().First(), Directory: dir}, imageFacts)
		},
	}
}

// imageImport is `image import`: pull from a file or a directory, which kind is told by looking.
func (a *app) imageImport() *cli.Command {
	return &cli.Command{
		Name: "import", Usage: "take in an OCI layout (a directory) or what docker save wrote (a file)", ArgsUsage: "PATH",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			path, err := filepath.Abs(cmd.Args().First())
			if err != nil {
				return err
			}
			// The two forms are told by what the path is, so the user need not know their names.
			info, err := os.Stat(path)
			if err != nil {
				return agentbox.Errorf(agentbox.NotFound, "%w", err)
			}
			if info.IsDir() {
				// The daemon reads the path, so the same user must be able to.
				return a.fetchImage(ctx, "oci:"+path)
			}
			return a.fetchImage(ctx, "docker-archive:"+path)
		},
	}
}

// fetchImage makes an image from a source as a configuration names it (oci:, docker-archive:, apt:
// or a reference).
func (a *app) fetchImage(ctx context.Context, source string) error {
	return tell(ctx, a, api.PullImage, api.ImagePullRequest{Source: source}, imageFacts)
}

// imageFacts are an image after something happened to it. --json is an api.Image; --quiet its digest.
func imageFacts(img api.Image) facts {
	return facts{
		value: img, ids: []string{img.Digest.String()},
		text: fmt.Sprintf("%s  %s  %s", img.Digest, bytesText(img.Size), imageText(img)),
	}
}

// imageText is an image's name and, when it is not all here, how much of it is. The name comes from
// where the image does, and is cleaned as all that is reported.
func imageText(img api.Image) string {
	if img.From == "" {
		return img.Name
	}
	return fmt.Sprintf("%s (%s of %s here, the rest from %s)", img.Name, bytesText(img.Here), bytesText(img.Size), img.From)
}

// imageLs is `image ls`: whole images, and those that are still coming with how much is here.
// --json is a list of api.Image; --quiet the digests.
func (a *app) imageLs() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the images present here",
		Action: func(ctx context.Context, _ *cli.Command) error {
			return tell(ctx, a, api.ListImages, api.None{}, func(images []api.Image) facts {
				return listed(images, []string{"DIGEST", "SIZE", "AGE", "NAME", "USED BY"}, func(img api.Image) (string, []string) {
					return img.Digest.String(), []string{img.Digest.Short(), bytesText(img.Size), agoText(img.Created), imageText(img), strings.Join(img.UsedBy, " ")}
				})
			})
		},
	}
}

// imageShow is `image show`: whose bytes an image is made of. That matters where images come from a
// team. --json is an api.ImageDetail; --quiet the digest.
func (a *app) imageShow() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "say where an image came from: who made it, and who sent how many of its bytes", ArgsUsage: "IMAGE",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return tell(ctx, a, api.ShowImage, api.ImageRef{Image: cmd.Args().First()}, func(img api.ImageDetail) facts {
				return facts{value: img, ids: []string{img.Digest.String()}, table: imageRows(img)}
			})
		},
	}
}

// imageRows are the rows of an image. The ones called "from" add up to its size.
func imageRows(img api.ImageDetail) [][]string {
	rows := [][]string{
		{"digest", img.Digest.String()},
		{"name", oneLine(img.Name)},
		{"source", oneLine(img.Source)},
		{"size", bytesText(img.Size)},
		{"created", agoText(img.Created) + " ago"},
		{"made by", makerText(img)},
	}
	if len(img.UsedBy) > 0 {
		rows = append(rows, []string{"used by", strings.Join(img.UsedBy, " ")})
	}
	for _, r := range img.Received {
		rows = append(rows, []string{"from", bytesText(r.Bytes) + " " + senderText(r)})
	}
	// What nobody sent is shown with what it was, so that the column adds up.
	for _, rest := range []struct {
		bytes int64
		what  string
	}{{img.Made, "made here"}, {img.Local, "not sent: empty, or here in other images"}, {img.Missing, "not here yet"}} {
		if rest.bytes > 0 {
			rows = append(rows, []string{"from", bytesText(rest.bytes) + " " + rest.what})
		}
	}
	return rows
}

// makerText is who made an image.
func makerText(img api.ImageDetail) string {
	switch {
	case img.Maker != "":
		return peerText(img.MakerName, img.Maker)
	// A registry's image is named by the manifest that its tag meant when it was pulled.
	case img.Manifest != "":
		return "this machine, of " + oneLine(img.Manifest)
	}
	return "this machine"
}

// senderText is who sent bytes of one.
func senderText(r api.ImageReceived) string {
	switch {
	case r.Peer != "":
		return peerText(r.Name, r.Peer)
	case r.Remote != "":
		return oneLine(r.Remote)
	}
	return "others"
}

// peerText is a member by the name it gave itself, which others may have too, and its PeerID. So
// the id is always there: a name proves nothing.
func peerText(name, id string) string {
	// Twelve digits are what other verbs take and print.
	short := id[:min(12, len(id))]
	if name == "" {
		return "peer " + short
	}
	return oneLine(name) + " (peer " + short + ")"
}

// imageRm is `image rm`. The first that a box uses ends it; those before are gone.
func (a *app) imageRm() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove images no box uses", ArgsUsage: "IMAGE...",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			// In order; each is reported as it goes.
			for _, name := range cmd.Args().Slice() {
				if err := tell(ctx, a, api.RemoveImage, api.ImageRef{Image: name}, imageFacts); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
