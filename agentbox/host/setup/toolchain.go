package setup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/caches"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/toolchain"
	"agentbox/vmm/console"
	"agentbox/vmm/image"
)

// equipment is how the tools that a repository asks for came to an image: what was planned, and the
// image that has them. It names no repository: all that ask for the same tools on the same image
// get the same.
type equipment struct {
	Plan  toolchain.Plan  `json:"plan"`
	Image agentbox.Digest `json:"image"`
}

// Equip gives base with the tools that the repository asks for. They are installed once for each
// image and set of needs, by root in a clean box without a workspace, and what that adds is a layer
// over base: no repository's code runs there.
func (s *Setup) Equip(ctx context.Context, req Request, base image.Image, progress agentbox.Progress) (image.Image, error) {
	s.askRegistries(ctx, req, base, false, progress)
	img, err := s.equipped(ctx, req, base, progress)
	if err == nil {
		s.askRegistries(ctx, req, img, true, progress)
	}
	return img, err
}

// equipped is base with the tools, from here, from another machine, or installed now.
func (s *Setup) equipped(ctx context.Context, req Request, base image.Image, progress agentbox.Progress) (image.Image, error) {
	key := equipmentKey(base.Digest, req.Config.Toolchain)
	defer s.keys.Lock("toolchain " + key.Hex())()
	if e, img, err := s.known(ctx, key, progress); err == nil {
		sayUnmet(e.Plan, progress)
		return img, nil
	}
	// Another machine may have installed them. What is not to be had for the box, it was told
	// there.
	if img, err := s.Images.Find(ctx, base, key, progress); err == nil {
		return img, s.writeEquipment(key, equipment{Image: img.Digest})
	}
	e, img, err := s.install(ctx, req, base, key, progress)
	if err != nil {
		return base, err
	}
	sayUnmet(e.Plan, progress)
	return img, s.writeEquipment(key, e)
}

// Equipped is base with tools, if they were installed here.
func (s *Setup) Equipped(ctx context.Context, needs toolchain.Needs, base image.Image) (image.Image, bool) {
	_, img, err := s.known(ctx, equipmentKey(base.Digest, needs), nil)
	return img, err == nil
}

// known is an image with tools that is here.
func (s *Setup) known(ctx context.Context, key agentbox.Digest, progress agentbox.Progress) (equipment, image.Image, error) {
	e, err := s.readEquipment(key)
	if err != nil {
		return e, image.Image{}, err
	}
	img, err := s.Images.Get(ctx, e.Image, progress)
	return e, img, err
}

// equipmentKey identifies an image with tools by what it is made from, the way of installing them
// included.
func equipmentKey(base agentbox.Digest, needs toolchain.Needs) agentbox.Digest {
	text := "toolchain 2\n" + base.String() + "\n" + toolchain.Recipe() + "\n" + needs.Sum()
	d, _, _ := agentbox.DigestOf(strings.NewReader(text)) // reading a string cannot fail
	return d
}

// install plans, and carries the plan out where it adds anything.
func (s *Setup) install(ctx context.Context, req Request, base image.Image, key agentbox.Digest, progress agentbox.Progress) (equipment, image.Image, error) {
	needs, installed := req.Config.Toolchain, toolchain.Installed(base.Versions)
	if needs.Settled(installed) {
		if plan := toolchain.Resolve(needs, installed).Without(installed); len(plan.Commands()) == 0 {
			return equipment{plan, base.Digest}, base, nil
		}
	}
	end := progress.Begin("toolchain", toolNames(needs))
	b, err := req.Empty(ctx, base, progress)
	if err != nil {
		return equipment{}, base, err
	}
	plan, img, err := s.installIn(ctx, b.Box, req, base, key, progress)
	if err = errors.Join(err, b.Remove()); err != nil {
		return equipment{}, base, agentbox.OrNoSpace(err)
	}
	end(img.Digest.Short())
	return equipment{plan, img.Digest}, img, nil
}

// toolNames are the tools that are asked for, for a message.
func toolNames(needs toolchain.Needs) string {
	var names []string
	for _, t := range needs.Tools() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// installIn installs what is asked for in a clean box, and lays what that added over base. apt's
// lists, caches and logs are removed first: they differ from run to run and are of no use in a box.
func (s *Setup) installIn(ctx context.Context, b Box, req Request, base image.Image, key agentbox.Digest, progress agentbox.Progress) (toolchain.Plan, image.Image, error) {
	dir, err := os.MkdirTemp(b.Dir, ".tmp-toolchain-")
	if err != nil {
		return toolchain.Plan{}, base, agentbox.OrNoSpace(err)
	}
	defer os.RemoveAll(dir)
	what := environment.Export{Root: "/", Skip: notSetup, Whole: image.OwnDirectories(), Bound: resultBound}
	known, err := s.inventories(ctx, b, map[caches.Part]environment.Export{caches.Runtime: what}, dir)
	defer known.close()
	if err != nil {
		return toolchain.Plan{}, base, agentbox.OrNoSpace(err)
	}
	what.Known = known[caches.Runtime]
	plan, err := s.Install(ctx, b, req.Config.Toolchain, toolchain.Installed(base.Versions))
	if err != nil || len(plan.Commands()) == 0 {
		return plan, base, err
	}
	const tidy = "apt-get clean; rm -rf /var/lib/apt/lists /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log"
	if err := s.asRoot(ctx, b, nil, "sh", "-c", tidy); err != nil {
		return plan, base, err
	}
	img, err := s.layerOf(ctx, b, what, dir, base, key, progress)
	return plan, img, err
}

// Install asks the distribution in a box what it has, and runs the plan that follows. Commands of
// ours run as root, without a shell and without anything of the repository but names and versions,
// which the plan has checked. The plan says what could not be had.
func (s *Setup) Install(ctx context.Context, b Box, needs toolchain.Needs, installed toolchain.Candidates) (toolchain.Plan, error) {
	if err := s.asRoot(ctx, b, nil, "apt-get", "-q", "update"); err != nil {
		return toolchain.Plan{}, err
	}
	var shown bytes.Buffer
	// It fails where there is no such package at all, and shows the others.
	_ = s.asRoot(ctx, b, &shown, append([]string{"apt-cache", "show", "--no-all-versions"}, needs.Asked()...)...)
	plan := toolchain.Resolve(needs, toolchain.ParseCandidates(&shown)).Without(installed)
	for _, argv := range plan.Commands() {
		if err := s.asRoot(ctx, b, nil, argv...); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

// layerOf lays what a clean box has beyond its image over that image. dir is where the archive is
// until then.
func (s *Setup) layerOf(ctx context.Context, b Box, what environment.Export, dir string, base image.Image, key agentbox.Digest, progress agentbox.Progress) (image.Image, error) {
	layer := filepath.Join(dir, "layer.tar")
	if err := s.take(ctx, b, what, layer); err != nil {
		return base, err
	}
	d := image.Derivation{Key: key, Name: "with tools", Layers: []func() (io.ReadCloser, error){
		func() (io.ReadCloser, error) { return os.Open(layer) },
	}}
	return s.Images.Derive(ctx, base, d, progress)
}

// mostAnswer bounds what a tool in a clean box may answer, in bytes: its image may have another
// program of that name. All that a distribution says of a few dozen packages is a tenth of it.
const mostAnswer = 4 << 20

// asRoot runs a command of ours in a box. Its output goes to out, where that is set, else the end
// of it into the error.
func (s *Setup) asRoot(ctx context.Context, b Box, out io.Writer, argv ...string) error {
	client, err := environment.Open(ctx, b.Address, "root")
	if err != nil {
		return err
	}
	defer client.Close()
	last := &console.Tail{}
	if out == nil {
		out = last
	} else {
		out = &bounded.AtMost{W: out, Left: mostAnswer, Err: agentbox.Errorf(agentbox.Conflict, "%s in a clean box says more than %d MiB", argv[0], mostAnswer>>20)}
	}
	status, err := environment.Exec(ctx, client, environment.Command{
		Argv: argv, Dir: "/", Stdout: out, Stderr: last, Env: map[string]string{"DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"},
	})
	if err != nil || status.Code == 0 {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "the tools that the repository asks for cannot be installed: %s ended with exit code %d: %s", argv[0], status.Code, last.OneLine()).
		WithHint("write image: and packages: in agentbox.yaml (agentbox init makes one), or allow what it needs: agentbox policy show")
}

// sayUnmet tells what a repository asks for and its box has not.
func sayUnmet(p toolchain.Plan, progress agentbox.Progress) {
	for _, u := range p.Unmet {
		progress.Say(u.String())
	}
}

// readEquipment reads how the tools of a key came to an image; an error satisfying fs.ErrNotExist
// where they did not.
func (s *Setup) readEquipment(key agentbox.Digest) (e equipment, err error) {
	b, err := os.ReadFile(s.Home.Toolchain(key.Hex()))
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(b, &e)
}

// writeEquipment remembers it, in a file of its own for each key.
func (s *Setup) writeEquipment(key agentbox.Digest, e equipment) error {
	path := s.Home.Toolchain(key.Hex())
	b, err := json.MarshalIndent(e, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return err
	}
	return agentbox.OrNoSpace(durable.WriteFile(path, b, 0o600))
}
