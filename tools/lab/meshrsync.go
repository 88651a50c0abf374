package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// rsyncDistributor is rsync's daemon on the first machine. Each of the others copies the whole
// image from it. rsync knows no peers, so this shows what one link can send to many.
type rsyncDistributor struct {
	o       *cluster
	program string
	dir     string
	daemon  *server
}

// rsyncPort is a port of the first machine's namespace.
const rsyncPort = "7873"

// openRsync starts a daemon on the first machine that serves the image. It does not use SSH, whose
// encryption would be part of the sample. It returns when the daemon answers.
func openRsync(ctx context.Context, o *cluster, program string, _ int) (_ distributor, err error) {
	g := &rsyncDistributor{o: o, program: program}
	if g.dir, err = o.peerDir("rsync"); err != nil {
		return nil, err
	}
	conf := filepath.Join(g.dir, "rsyncd.conf")
	text := fmt.Sprintf("use chroot = no\nmax connections = 64\nuid = 0\ngid = 0\n[image]\npath = %s\nread only = yes\n", filepath.Dir(o.image))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if g.daemon, err = o.serve(ctx, 0, g.dir, nil, false, program, "--daemon", "--no-detach", "--config="+conf, "--port="+rsyncPort); err != nil {
		return nil, err
	}
	err = retryUntil(ctx, func() error {
		_, _, err := o.run(ctx, 1, nil, program, "rsync://"+g.at())
		return err
	})
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// at returns the daemon's host and port, with a slash.
func (g *rsyncDistributor) at() string { return g.o.address(0).Addr().String() + ":" + rsyncPort + "/" }

// get copies the image and syncs it; rsync verifies it.
func (g *rsyncDistributor) get(ctx context.Context, i int) (time.Duration, error) {
	to := filepath.Join(g.dir, fmt.Sprint("got-", i))
	_, took, err := g.o.run(ctx, i, nil, g.program, "--fsync", "rsync://"+g.at()+"image/"+filepath.Base(g.o.image), to)
	if err == nil {
		err = sameSize(to, g.o.image)
	}
	return took, err
}

func (g *rsyncDistributor) close() error { return errors.Join(g.daemon.close(), os.RemoveAll(g.dir)) }

// sameSize returns an error unless both files have the same length.
func sameSize(got, want string) error {
	a, err := os.Stat(got)
	if err != nil {
		return err
	}
	b, err := os.Stat(want)
	if err == nil && a.Size() != b.Size() {
		err = fmt.Errorf("%d bytes came of %d", a.Size(), b.Size())
	}
	return err
}
