package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/caches"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/toolchain"
	"agentbox/agentbox/toolchain/resolve"
	"agentbox/vmm/console"
	"agentbox/vmm/image"
)

// toolsRecord records how tools came to an image: the plan, and the image that has them. It names
// no repository, since all that ask for the same tools on the same image share it.
type toolsRecord struct {
	Plan  resolve.Plan    `json:"plan"`
	Image agentbox.Digest `json:"image"`
}

// InstallTools returns base with the tools that the repository asks for, and those of its agent on
// top. Root installs each of the two once for each image and set of needs, in a clean box without a
// workspace, and the change becomes a layer. No code of the repository runs there. So an agent is
// installed once for all repositories with the same tools, and a repository's tools once for all
// agents.
func (s *Setup) InstallTools(ctx context.Context, req Request, base image.Image, progress agentbox.Progress) (image.Image, error) {
	s.askRegistries(ctx, req, base, false, progress)
	img := base
	for _, needs := range splitNeeds(req.Config.Toolchain, req.Agent) {
		var err error
		if img, err = s.ensureTools(ctx, req, needs, img, progress); err != nil {
			return base, err
		}
	}
	s.askRegistries(ctx, req, img, true, progress)
	return img, nil
}

// splitNeeds splits needs into the repository's own, which are installed first, and those of its
// agent. A tool that both ask for is installed once, with the repository's.
func splitNeeds(all, agents toolchain.Needs) []toolchain.Needs {
	repository := slices.DeleteFunc(slices.Clone(all), func(n toolchain.Need) bool { return slices.Contains(agents, n) })
	tools := repository.Tools()
	var first, second toolchain.Needs
	for _, n := range all {
		if slices.Contains(tools, n.Tool) {
			first = append(first, n)
		} else {
			second = append(second, n)
		}
	}
	return slices.DeleteFunc([]toolchain.Needs{first, second}, func(n toolchain.Needs) bool { return len(n) == 0 })
}

func (s *Setup) ensureTools(ctx context.Context, req Request, needs toolchain.Needs, base image.Image, progress agentbox.Progress) (image.Image, error) {
	key := toolsKey(base.Digest, needs)
	defer s.keys.Lock("toolchain " + key.Hex())()
	if e, img, err := s.cachedImage(ctx, key, progress); err == nil {
		reportUnmet(e.Plan, progress)
		return img, nil
	}
	// Another machine may have installed them, and reported there which could not be had.
	if img, err := s.Images.Find(ctx, base, key, progress); err == nil {
		return img, s.writeToolsRecord(key, toolsRecord{Image: img.Digest})
	}
	e, img, err := s.install(ctx, req, needs, base, key, progress)
	if err != nil {
		return base, err
	}
	reportUnmet(e.Plan, progress)
	return img, s.writeToolsRecord(key, e)
}

// FindTools is base with the tools of a repository and its agent, if they were installed here.
func (s *Setup) FindTools(ctx context.Context, all, agents toolchain.Needs, base image.Image) (image.Image, bool) {
	img := base
	for _, needs := range splitNeeds(all, agents) {
		var err error
		if _, img, err = s.cachedImage(ctx, toolsKey(img.Digest, needs), nil); err != nil {
			return base, false
		}
	}
	return img, true
}

// cachedImage returns the image with the tools of a key, if it is here.
func (s *Setup) cachedImage(ctx context.Context, key agentbox.Digest, progress agentbox.Progress) (toolsRecord, image.Image, error) {
	e, err := s.readToolsRecord(key)
	if err != nil {
		return e, image.Image{}, err
	}
	img, err := s.Images.Get(ctx, e.Image, progress)
	return e, img, err
}

// toolsKey identifies an image with tools by what it is made from, and how they are installed.
func toolsKey(base agentbox.Digest, needs toolchain.Needs) agentbox.Digest {
	text := "toolchain 3\n" + base.String() + "\n" + resolve.Fingerprint() + "\n" + needs.Fingerprint()
	d, _, _ := agentbox.DigestOf(strings.NewReader(text)) // reading a string cannot fail
	return d
}

// install plans what to install, and does so unless nothing has to be added.
func (s *Setup) install(ctx context.Context, req Request, needs toolchain.Needs, base image.Image, key agentbox.Digest, progress agentbox.Progress) (toolsRecord, image.Image, error) {
	installed := resolve.Installed(base.Versions)
	if resolve.Satisfied(needs, installed) {
		if plan := resolve.Resolve(needs, resolve.Available{Distribution: installed}).Without(installed); len(plan.Commands()) == 0 {
			s.checkImages(ctx, &plan)
			return toolsRecord{plan, base.Digest}, base, nil
		}
	}
	end := progress.Begin("toolchain", toolNames(needs))
	b, err := req.Empty(ctx, base, progress)
	if err != nil {
		return toolsRecord{}, base, err
	}
	plan, img, err := s.installIn(ctx, b.Box, needs, base, key, progress)
	if err = errors.Join(err, b.Remove()); err != nil {
		return toolsRecord{}, base, agentbox.MarkNoSpace(err)
	}
	end(img.Digest.Short())
	return toolsRecord{plan, img.Digest}, img, nil
}

func toolNames(needs toolchain.Needs) string {
	var names []string
	for _, t := range needs.Tools() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// installIn installs tools in a clean box and makes a layer of the changes. It first removes apt's
// lists, caches and logs, which differ from run to run and are useless in a box.
func (s *Setup) installIn(ctx context.Context, b Box, needs toolchain.Needs, base image.Image, key agentbox.Digest, progress agentbox.Progress) (resolve.Plan, image.Image, error) {
	dir, err := os.MkdirTemp(b.Dir, ".tmp-toolchain-")
	if err != nil {
		return resolve.Plan{}, base, agentbox.MarkNoSpace(err)
	}
	defer os.RemoveAll(dir)
	what := environment.Export{Root: "/", Skip: machineOnly, Whole: image.PerBoxDirectories(), Limits: resultLimits}
	known, err := s.inventories(ctx, b, map[caches.Part]environment.Export{caches.Runtime: what}, dir)
	defer known.close()
	if err != nil {
		return resolve.Plan{}, base, agentbox.MarkNoSpace(err)
	}
	what.Known = known[caches.Runtime]
	plan, err := s.Install(ctx, b, needs, resolve.Installed(base.Versions))
	if err != nil || len(plan.Commands()) == 0 {
		return plan, base, err
	}
	const tidy = "apt-get clean; rm -rf /var/lib/apt/lists /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log"
	if err := s.asRoot(ctx, b, nil, "sh", "-c", tidy); err != nil {
		return plan, base, err
	}
	img, err := s.addLayer(ctx, b, what, dir, base, key, progress)
	return plan, img, err
}

// Install finds out what a box can get, plans, and runs the plan's commands as root. Of the
// repository they contain only names and versions, which the plan has checked. The plan says what
// could not be had.
func (s *Setup) Install(ctx context.Context, b Box, needs toolchain.Needs, installed resolve.Candidates) (resolve.Plan, error) {
	latest, err := s.latestReleases(ctx, b, needs)
	if err != nil {
		return resolve.Plan{}, err
	}
	needs, natives := resolve.WithNatives(needs, latest)
	offer, err := s.candidates(ctx, b, needs)
	if err != nil {
		return resolve.Plan{}, err
	}
	plan := resolve.Resolve(needs, offer).Without(installed)
	s.checkImages(ctx, &plan)
	plan.Native = natives
	for _, argv := range plan.Commands() {
		if err := s.asRoot(ctx, b, nil, argv...); err != nil {
			return plan, err
		}
	}
	return plan, nil
}

// latestReleases asks the npm registry for the latest releases of programs, by package. It has none
// for a package of which the registry says nothing or that it lacks: then npm decides.
func (s *Setup) latestReleases(ctx context.Context, b Box, needs toolchain.Needs) (map[string]resolve.Latest, error) {
	latest := map[string]resolve.Latest{}
	for _, name := range resolve.PackagesOfLatest(needs) {
		said, err := s.query(ctx, b, resolve.MaxAnswer, resolve.AskRegistry(name))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if found, ok := resolve.ParseLatest(name, said); err == nil && ok {
			latest[name] = found
		}
	}
	return latest, nil
}

// candidates is which of the needed tools a box has and can get. The distribution is asked only for
// what has to come from it, because its package lists take longer to fetch than some tools. If
// npm's registry does not answer, that is an error unless the distribution's Node.js will do.
func (s *Setup) candidates(ctx context.Context, b Box, needs toolchain.Needs) (resolve.Available, error) {
	var offer resolve.Available
	var silent error
	wanted := needs.Constraints(toolchain.Node)
	if len(needs.ForTool(toolchain.Node)) > 0 {
		silent = s.nodeCandidates(ctx, b, wanted, &offer)
	}
	asked := resolve.PackagesToQuery(needs, offer)
	if len(asked) == 0 {
		return offer, nil
	}
	if err := s.asRoot(ctx, b, nil, "apt-get", "-q", "update"); err != nil {
		return offer, err
	}
	// It skips packages that do not exist, and fails if none of them does. It knows its own.
	shown, err := s.query(ctx, b, maxAnswer, append([]string{"apt-cache", "show", "--no-all-versions", "apt"}, asked...))
	if err != nil {
		return offer, err
	}
	offer.Distribution = resolve.ParseCandidates(shown)
	if offer.DistributionHas(wanted) {
		silent = nil
	}
	return offer, silent
}

// nodeCandidates finds out which Node.js the box has and, if that is not what is wanted, which ones
// the npm registry offers.
func (s *Setup) nodeCandidates(ctx context.Context, b Box, wanted []string, offer *resolve.Available) error {
	said, err := s.query(ctx, b, maxAnswer, resolve.AskNode())
	if err != nil {
		return err
	}
	if offer.Node = resolve.ParseNode(said); offer.Has(wanted) || resolve.NodePackage() == "" {
		return nil
	}
	for name, releases := range map[string]*resolve.Releases{resolve.NodePackage(): &offer.Nodes, resolve.NPM: &offer.NPMs} {
		if said, err = s.query(ctx, b, resolve.MaxAnswer, resolve.AskRegistry(name)); err != nil {
			return err
		}
		if *releases, err = resolve.ParseReleases(name, said); err != nil {
			return err
		}
	}
	return nil
}

// maxAnswer bounds a tool's answer in bytes, since the image may have another program of its name.
// A distribution's answer about dozens of packages is a tenth of that.
const maxAnswer = 4 << 20

// query is the output of a command that root runs in a box, at most limit bytes.
func (s *Setup) query(ctx context.Context, b Box, limit int64, argv []string) (*bytes.Buffer, error) {
	var said bytes.Buffer
	tooLong := agentbox.Errorf(agentbox.Conflict, "%s in a clean box prints more than %d MiB", argv[0], limit>>20)
	err := s.asRoot(ctx, b, &bounded.LimitedWriter{W: &said, Remaining: limit, Err: tooLong}, argv...)
	return &said, err
}

// addLayer adds what a clean box has beyond its image to that image as a layer. The archive is kept
// in dir until then.
func (s *Setup) addLayer(ctx context.Context, b Box, what environment.Export, dir string, base image.Image, key agentbox.Digest, progress agentbox.Progress) (image.Image, error) {
	layer := filepath.Join(dir, "layer.tar")
	if err := s.receive(ctx, b, what, layer); err != nil {
		return base, err
	}
	d := image.Derivation{Key: key, Name: "with tools", Layers: []func() (io.ReadCloser, error){
		func() (io.ReadCloser, error) { return os.Open(layer) },
	}}
	return s.Images.Derive(ctx, base, d, progress)
}

// asRoot runs a command as root in a box. Its output goes to out, which bounds it; without out, the
// end of it is in the error.
func (s *Setup) asRoot(ctx context.Context, b Box, out io.Writer, argv ...string) error {
	failed, err := s.runAsRoot(ctx, b, "/", out, io.Discard, argv)
	if err != nil || failed == "" {
		return err
	}
	return agentbox.Errorf(agentbox.Conflict, "the tools that the repository asks for cannot be installed: %s", failed).
		WithHint("write image: and packages: in agentbox.yaml (agentbox init makes one), or allow what it needs: agentbox policy show")
}

// runAsRoot runs a command as root in a directory of a box. failed is "" if it succeeded, else how
// it ended and the end of its errors, and of its output if out is nil. errs gets its errors, too.
func (s *Setup) runAsRoot(ctx context.Context, b Box, dir string, out, errs io.Writer, argv []string) (failed string, err error) {
	client, err := environment.Open(ctx, b.Address, "root")
	if err != nil {
		return "", err
	}
	defer client.Close()
	last := &console.Tail{}
	if out == nil {
		out = last
	}
	status, err := environment.Exec(ctx, client, environment.Command{
		Argv: argv, Dir: dir, Stdout: out, Stderr: io.MultiWriter(last, errs), Env: map[string]string{"DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"},
	})
	if err != nil || status.Code == 0 {
		return "", err
	}
	return fmt.Sprintf("%s ended with exit code %d: %s", argv[0], status.Code, last.OneLine()), nil
}

// reportUnmet reports what a repository asks for and its box lacks.
func reportUnmet(p resolve.Plan, progress agentbox.Progress) {
	for _, u := range p.Unmet {
		progress.Note(u.String())
	}
	for _, note := range p.Notes {
		progress.Note(note)
	}
}

// checkImages asks whether the images exist that a plan names for what it does not meet.
func (s *Setup) checkImages(ctx context.Context, p *resolve.Plan) {
	if s.HasImage != nil {
		p.CheckImages(func(source string) (bool, error) { return s.HasImage(ctx, source) })
	}
}

// readToolsRecord reads the toolsRecord of a key; the zero toolsRecord if there is none.
func (s *Setup) readToolsRecord(key agentbox.Digest) (e toolsRecord, err error) {
	err = durable.ReadJSON(s.Home.Toolchain(key.Hex()), &e)
	return e, err
}

// writeToolsRecord stores the toolsRecord of a key in a file of its own.
func (s *Setup) writeToolsRecord(key agentbox.Digest, e toolsRecord) error {
	path := s.Home.Toolchain(key.Hex())
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return agentbox.MarkNoSpace(durable.WriteJSON(path, e, 0o600))
}
