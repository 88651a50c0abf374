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

// imageCommand groups the verbs about images. The daemon makes and removes them. These verbs only
// make paths absolute, because its current directory is not ours.
func (a *app) imageCommand() *cli.Command {
	return &cli.Command{
		Name: "image", Category: catHost, Usage: "build, pull, import, export, list, show and remove images",
		Commands: []*cli.Command{a.imageBuild(), a.imagePull(), a.imageImport(), a.imageExport(), a.imageLs(), a.imageShow(), a.imageRm()},
	}
}

// imageBuild is `image build`: the first step of up. --update replaces the pin in agentbox.lock.
func (a *app) imageBuild() *cli.Command {
	var req api.ImageBuildRequest
	return &cli.Command{
		Name: "build", Usage: "build the image for this directory's configuration",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "update", Usage: "build it again and replace the pin in agentbox.lock", Destination: &req.Update}},
		Action: func(ctx context.Context, _ *cli.Command) error {
			c, err := a.checkout(ctx)
			if err != nil {
				return err
			}
			req.Directory, req.Source, req.Environ = c.directory, c.source, a.environ()
			return callAndReport(ctx, a, api.BuildImage, req, imageFacts)
		},
	}
}

// imagePull is `image pull`, from a registry or, with --from, from a directory or URL that
// imageExport filled. Only the latter can be fetched lazily: a registry sends layers, from which
// the image must be built first.
func (a *app) imagePull() *cli.Command {
	var req api.ImageFetchRequest
	return &cli.Command{
		Name: "pull", Usage: "fetch an image from a registry, or from a directory that image export filled", ArgsUsage: "REFERENCE | --from REMOTE [IMAGE]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "fetch from this `REMOTE`: a directory that agentbox image export filled, or its URL", Destination: &req.From},
			&cli.BoolFlag{Name: "lazy", Usage: "fetch only what a box reads, when it reads it, and the rest when the box is idle", Destination: &req.Lazy},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if req.From != "" {
				return a.fetchFrom(ctx, req, cmd.Args().Slice())
			}
			if cmd.Args().Len() != 1 {
				return agentbox.Errorf(agentbox.Invalid, "pull takes one reference").WithHint("agentbox image pull NAME:TAG")
			}
			// Refuse before fetching anything: the user has a reason for --lazy, such as a slow
			// link.
			if req.Lazy {
				return agentbox.Errorf(agentbox.Invalid, "a registry provides whole images only").WithHint("agentbox image pull --lazy --from DIRECTORY")
			}
			return a.fetchImage(ctx, cmd.Args().First())
		},
	}
}

// fetchFrom fetches an image from a directory or URL; without a name, the only one that is there.
func (a *app) fetchFrom(ctx context.Context, req api.ImageFetchRequest, args []string) (err error) {
	if len(args) > 1 {
		return agentbox.Errorf(agentbox.Invalid, "pull --from takes one image").WithHint("agentbox image pull --from %s", req.From)
	}
	// The argument names one of several images.
	if len(args) == 1 {
		req.Image = args[0]
	}
	if req.From, err = remoteOf(req.From); err != nil {
		return err
	}
	return callAndReport(ctx, a, api.FetchImage, req, imageFacts)
}

// remoteOf converts a directory or URL of the user to what the daemon understands: an absolute path,
// or the URL unchanged. "" stays "".
func remoteOf(from string) (string, error) {
	if from == "" || strings.Contains(from, "://") {
		return from, nil
	}
	return filepath.Abs(from)
}

// imageExport is `image export`. Any web server can serve the directory that it writes.
func (a *app) imageExport() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "write an image into a directory, for image pull --from", ArgsUsage: "IMAGE DIRECTORY",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			dir, err := filepath.Abs(cmd.Args().Get(1))
			if err != nil {
				return err
			}
			return callAndReport(ctx, a, api.ExportImage, api.ImageExportRequest{Image: cmd.Args().First(), Directory: dir}, imageFacts)
		},
	}
}

// imageImport is `image import`: pull from a file or a directory, whichever the path is.
func (a *app) imageImport() *cli.Command {
	return &cli.Command{
		Name: "import", Usage: "import an OCI layout (a directory) or the output of docker save (a file)", ArgsUsage: "PATH",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			path, err := filepath.Abs(cmd.Args().First())
			if err != nil {
				return err
			}
			// The path itself shows which of the two forms it is, so the user need not know their
			// names.
			info, err := os.Stat(path)
			if err != nil {
				return agentbox.Errorf(agentbox.NotFound, "%w", err)
			}
			if info.IsDir() {
				// The daemon, which is the same user, reads the path.
				return a.fetchImage(ctx, "oci:"+path)
			}
			return a.fetchImage(ctx, "docker-archive:"+path)
		},
	}
}

// fetchImage makes an image from a source written as in a configuration: oci:, docker-archive:,
// apt: or a reference.
func (a *app) fetchImage(ctx context.Context, source string) error {
	return callAndReport(ctx, a, api.PullImage, api.ImagePullRequest{Source: source}, imageFacts)
}

// imageFacts are the facts of a changed image. --json prints an api.Image; --quiet its digest.
func imageFacts(img api.Image) facts {
	return facts{
		value: img, ids: []string{img.Digest.String()},
		text: fmt.Sprintf("%s  %s  %s", img.Digest, bytesText(img.Size), imageText(img)),
	}
}

// imageText returns an image's name and, if it is incomplete, how much is here. The name comes from
// where the image does; report sanitizes it like all other text.
func imageText(img api.Image) string {
	if img.From == "" {
		return img.Name
	}
	return fmt.Sprintf("%s (%s of %s here, the rest from %s)", img.Name, bytesText(img.Present), bytesText(img.Size), img.From)
}

// imageLs is `image ls`: complete images, and incomplete ones with the amount that is here. --json
// prints a list of api.Image; --quiet the digests.
func (a *app) imageLs() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the images on this machine",
		Action: func(ctx context.Context, _ *cli.Command) error {
			return callAndReport(ctx, a, api.ListImages, api.None{}, func(images []api.Image) facts {
				return listed(images, []string{"DIGEST", "SIZE", "AGE", "NAME", "USED BY"}, func(img api.Image) (string, []string) {
					return img.Digest.String(), []string{img.Digest.Short(), bytesText(img.Size), agoText(img.Created), imageText(img), strings.Join(img.UsedBy, " ")}
				})
			})
		},
	}
}

// imageShow is `image show`: who made and sent the bytes of an image, which matters for images from
// a team. --json prints an api.ImageDetail; --quiet the digest.
func (a *app) imageShow() *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "show who built an image, and who sent how many of its bytes", ArgsUsage: "IMAGE",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return callAndReport(ctx, a, api.ShowImage, api.ImageRef{Image: cmd.Args().First()}, func(img api.ImageDetail) facts {
				return facts{value: img, ids: []string{img.Digest.String()}, table: imageRows(img)}
			})
		},
	}
}

// imageRows returns the rows about an image. Those called "from" add up to its size.
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
	// Bytes that nobody sent get rows of their own, so that the column adds up.
	for _, rest := range []struct {
		bytes int64
		what  string
	}{{img.Made, "made here"}, {img.Local, "not sent: empty, or present in other images"}, {img.Missing, "not here yet"}} {
		if rest.bytes > 0 {
			rows = append(rows, []string{"from", bytesText(rest.bytes) + " " + rest.what})
		}
	}
	return rows
}

func makerText(img api.ImageDetail) string {
	switch {
	case img.Maker != "":
		return peerText(img.MakerName, img.Maker)
	// An image from a registry is identified by the manifest that its tag meant when it was pulled.
	case img.Manifest != "":
		return "this machine, of " + oneLine(img.Manifest)
	}
	return "this machine"
}

func senderText(r api.ImageReceived) string {
	switch {
	case r.Peer != "":
		return peerText(r.Name, r.Peer)
	case r.Remote != "":
		return oneLine(r.Remote)
	}
	return "others"
}

// peerText returns a member's name and PeerID. The ID is always there, because a member chooses its
// own name, which others may have too: a name proves nothing.
func peerText(name, id string) string {
	// Other verbs accept and print twelve digits.
	short := id[:min(12, len(id))]
	if name == "" {
		return "peer " + short
	}
	return oneLine(name) + " (peer " + short + ")"
}

// imageRm is `image rm`. It stops at the first image that a box uses; those before it are removed.
func (a *app) imageRm() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove images that no box uses", ArgsUsage: "IMAGE...",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			// In order, each reported as it is removed.
			for _, name := range cmd.Args().Slice() {
				if err := callAndReport(ctx, a, api.RemoveImage, api.ImageRef{Image: name}, imageFacts); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
