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

func (a *app) imageCommand() *cli.Command {
	return &cli.Command{
		Name: "image", Category: catHost, Usage: "build, pull, import, list and remove images",
		Commands: []*cli.Command{a.imageBuild(), a.imagePull(), a.imageImport(), a.imageLs(), a.imageRm()},
	}
}

func (a *app) imageBuild() *cli.Command {
	var req api.ImageBuildRequest
	return &cli.Command{
		Name: "build", Usage: "make the image this directory's configuration asks for",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "update", Usage: "make it anew and replace the pin in agentbox.lock", Destination: &req.Update}},
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			if req.Directory, err = os.Getwd(); err != nil {
				return err
			}
			req.Environ = os.Environ()
			img, err := call(ctx, a, api.BuildImage, req)
			if err != nil {
				return err
			}
			return a.printImage(img)
		},
	}
}

func (a *app) imagePull() *cli.Command {
	return &cli.Command{
		Name: "pull", Usage: "fetch an image from a registry", ArgsUsage: "REFERENCE",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() != 1 {
				return agentbox.Errorf(agentbox.Invalid, "pull takes one reference").WithHint("agentbox image pull NAME:TAG")
			}
			return a.fetchImage(ctx, cmd.Args().First())
		},
	}
}

func (a *app) imageImport() *cli.Command {
	return &cli.Command{
		Name: "import", Usage: "take in an OCI layout (a directory) or what docker save wrote (a file)", ArgsUsage: "PATH",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() != 1 {
				return agentbox.Errorf(agentbox.Invalid, "import takes one path").WithHint("agentbox image import image.tar")
			}
			path, err := filepath.Abs(cmd.Args().First())
			if err != nil {
				return err
			}
			info, err := os.Stat(path)
			if err != nil {
				return agentbox.Errorf(agentbox.NotFound, "%w", err)
			}
			if info.IsDir() {
				return a.fetchImage(ctx, "oci:"+path)
			}
			return a.fetchImage(ctx, "docker-archive:"+path)
		},
	}
}

func (a *app) fetchImage(ctx context.Context, source string) error {
	img, err := call(ctx, a, api.PullImage, api.ImagePullRequest{Source: source})
	if err != nil {
		return err
	}
	return a.printImage(img)
}

func (a *app) printImage(img api.Image) error {
	return a.report(facts{
		value: img, ids: []string{img.Digest.String()},
		text: fmt.Sprintf("%s  %s  %s", img.Digest, bytesText(img.Size), img.Name),
	})
}

func (a *app) imageLs() *cli.Command {
	return &cli.Command{
		Name: "ls", Usage: "list the images present here",
		Action: func(ctx context.Context, _ *cli.Command) error {
			images, err := call(ctx, a, api.ListImages, api.None{})
			if err != nil {
				return err
			}
			f := facts{value: images, table: [][]string{{"DIGEST", "SIZE", "AGE", "NAME", "USED BY"}}}
			for _, img := range images {
				f.ids = append(f.ids, img.Digest.String())
				f.table = append(f.table, []string{img.Digest.Short(), bytesText(img.Size), agoText(img.Created), img.Name, strings.Join(img.UsedBy, " ")})
			}
			return a.report(f)
		},
	}
}

func (a *app) imageRm() *cli.Command {
	return &cli.Command{
		Name: "rm", Usage: "remove images no box uses", ArgsUsage: "IMAGE...",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if !cmd.Args().Present() {
				return agentbox.Errorf(agentbox.Invalid, "no image named").WithHint("agentbox image ls shows their digests")
			}
			for _, name := range cmd.Args().Slice() {
				img, err := call(ctx, a, api.RemoveImage, api.ImageRef{Image: name})
				if err != nil {
					return err
				}
				if err := a.printImage(img); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
