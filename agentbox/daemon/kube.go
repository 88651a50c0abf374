package daemon

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/host"
	"agentbox/agentbox/kube"
	"agentbox/agentbox/task"
	"agentbox/vmm/image/rootfs"
)

// remotes has attempts carried out by the team, or by a cluster (task.Remote).
type remotes struct {
	team task.Remote
	kube *kube.Remote
}

// Room is without a bound for a cluster, which has a queue of its own.
func (r remotes) Room(t agentbox.Task, need task.Need, begun int) int {
	if kube.Is(t.Where) {
		return math.MaxInt
	}
	return r.team.Room(t, need, begun)
}

func (r remotes) Run(ctx context.Context, t agentbox.Task, a agentbox.Attempt, need task.Need, dir string, cancelled <-chan struct{}) (agentbox.Result, error) {
	if kube.Is(t.Where) {
		return r.kube.Run(ctx, t, a, need, dir, cancelled)
	}
	return r.team.Run(ctx, t, a, need, dir, cancelled)
}

func (d *daemon) newKube() (*kube.Remote, error) {
	program, err := os.Executable()
	err = errors.Join(err, os.RemoveAll(d.cfg.Home.KubernetesLayers())) // what a daemon that was killed left
	return &kube.Remote{
		Settings: d.cfg.Home.Kubernetes(), Accept: d.acceptResult, Note: task.Note, Log: d.cfg.Log,
		Registry: kube.Registry{Image: d.podImage, Export: d.sources.ExportWhole, Program: program, Temp: d.cfg.Home.KubernetesLayers()},
	}, err
}

// podImage is the image that the boxes of a task would have. All kinds have the same one, so this machine
// is not asked which kinds it can: that may fetch a kernel.
func (d *daemon) podImage(ctx context.Context, t agentbox.Task) (kube.Image, error) {
	img, err := host.ImageFor(ctx, d.boxes, api.UpRequest{
		Directory: t.Directory, Source: t.Source, Agent: t.Agent, Isolation: cmp.Or(t.Isolation, agentbox.GVisor), Task: true, Environ: t.Environ,
	}, func(agentbox.Event) {})
	if err != nil {
		return kube.Image{}, err
	}
	return kube.Image{Digest: img.Digest, Env: img.Env, User: img.User, Setup: img.Setup, Write: func(ctx context.Context, w io.Writer) error {
		f, err := os.Open(img.Path)
		if err != nil {
			return err
		}
		defer f.Close()
		tree, err := rootfs.Read(ctx, f, rootfs.DefaultLimits, time.Time{})
		if err != nil {
			return err
		}
		return tree.WriteTar(ctx, w)
	}}, nil
}
