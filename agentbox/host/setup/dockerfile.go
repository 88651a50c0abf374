package setup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/agentbox/config"
	"agentbox/agentbox/workspace"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
)

// Builder is the packages of a box that builds Dockerfiles.
var Builder = []string{"buildah", "ca-certificates", "crun", "git", "netavark"}

// BuildImage returns the image that the Dockerfile of a request makes: from here, or built now by
// root in a clean box of the image builder, with the repository's files and its policy. An image is
// built once for each key (buildKey), whatever has become of the images it is from. Conflict if the
// Dockerfile cannot be built.
func (s *Setup) BuildImage(ctx context.Context, req Request, builder image.Image, progress agentbox.Progress) (image.Image, error) {
	b := *req.Config.Build
	key, err := buildKey(ctx, req)
	if err != nil {
		return image.Image{}, err
	}
	defer s.keys.Lock("dockerfile " + key.Hex())()
	if _, img, err := s.cachedImage(ctx, key, progress); err == nil {
		return img, nil
	}
	end := progress.Begin("dockerfile", b.Dockerfile)
	box, err := req.Clean(ctx, builder, progress)
	if err != nil {
		return image.Image{}, err
	}
	img, err := s.buildIn(ctx, box.Box, b, progress)
	if err = errors.Join(err, box.Remove()); err != nil {
		return img, agentbox.MarkNoSpace(err)
	}
	end(img.Digest.Short())
	return img, s.writeToolsRecord(key, toolsRecord{Image: img.Digest})
}

// builtArchive is where a box has the image that it has built.
const builtArchive = "/var/tmp/agentbox-image.tar"

func (s *Setup) buildIn(ctx context.Context, b Box, build config.Build, progress agentbox.Progress) (image.Image, error) {
	log, err := openLog(b)
	if err != nil {
		return image.Image{}, agentbox.MarkNoSpace(err)
	}
	defer log.Close()
	for _, argv := range buildCommands(build) {
		out, errs := &lineWriter{log: log, report: progress.Note}, &lineWriter{log: log, report: progress.Note}
		failed, err := s.runAsRoot(ctx, b, protocol.WorkspaceDir, out, errs, argv)
		out.flush()
		errs.flush()
		if err == nil && failed != "" {
			err = agentbox.Errorf(agentbox.Conflict, "%s cannot be built: %s", build.Dockerfile, failed)
		}
		if err != nil {
			return image.Image{}, err
		}
	}
	dir, err := os.MkdirTemp(b.Dir, ".tmp-image-")
	if err != nil {
		return image.Image{}, agentbox.MarkNoSpace(err)
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "image.tar")
	f, err := os.OpenFile(archive, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return image.Image{}, agentbox.MarkNoSpace(err)
	}
	tooLarge := agentbox.Errorf(agentbox.Conflict, "the image of %s is larger than %d GiB", build.Dockerfile, resultLimits.Bytes>>30)
	out := &bounded.LimitedWriter{W: f, Remaining: resultLimits.Bytes, Err: tooLarge}
	failed, err := s.runAsRoot(ctx, b, "/", out, io.Discard, []string{"cat", builtArchive})
	if failed != "" {
		err = errors.Join(err, errors.New(failed))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return image.Image{}, agentbox.MarkNoSpace(err)
	}
	return s.Images.Import(ctx, archive, progress)
}

// buildCommands build a Dockerfile in the workspace and write the image to builtArchive. A box is no
// place for namespaces of a container engine, and needs none: it is a box.
func buildCommands(b config.Build) [][]string {
	const tag = "localhost/agentbox"
	buildah := []string{"buildah", "--storage-driver", "vfs"}
	bud := append(slices.Clone(buildah), "bud", "--isolation", "chroot", "--format", "docker", "--tag", tag, "--file", path.Join(protocol.WorkspaceDir, b.Dockerfile))
	if b.Target != "" {
		bud = append(bud, "--target="+b.Target)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Args)) {
		bud = append(bud, "--build-arg="+name+"="+b.Args[name])
	}
	return [][]string{
		append(bud, path.Join(protocol.WorkspaceDir, b.Context)),
		append(slices.Clone(buildah), "push", "--quiet", tag, "docker-archive:"+builtArchive+":agentbox"),
	}
}

// buildKey identifies what a Dockerfile makes: by itself, its arguments, and the files of its
// context that it can copy.
func buildKey(ctx context.Context, req Request) (agentbox.Digest, error) {
	b := req.Config.Build
	root, err := os.OpenRoot(req.Config.Root)
	if err != nil {
		return agentbox.Digest{}, err
	}
	defer root.Close()
	file, err := readDockerfile(root, b.Dockerfile)
	if err != nil {
		return agentbox.Digest{}, agentbox.Errorf(agentbox.Conflict, "%s: %w", b.Dockerfile, err)
	}
	args, err := json.Marshal(b) // maps are sorted
	if err != nil {
		return agentbox.Digest{}, err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "dockerfile 1\n%s\n%q\n%q\n", runtime.GOARCH, args, file)
	if paths := copied(file, b.Context); len(paths) > 0 {
		repo, err := workspace.Describe(ctx, req.Directory)
		if err != nil {
			return agentbox.Digest{}, err
		}
		files, err := workspace.FilesIn(ctx, repo, paths...)
		if err != nil {
			return agentbox.Digest{}, err
		}
		slices.Sort(files)
		for _, name := range slices.Compact(files) {
			if err := addFile(sum, root, strings.TrimSuffix(name, "/")); err != nil {
				return agentbox.Digest{}, err
			}
		}
	}
	return agentbox.Digest(sum.Sum(nil)), nil
}

// CheckDockerfile says why there is no Dockerfile to build. Conflict.
func CheckDockerfile(req Request) error {
	root, err := os.OpenRoot(req.Config.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := readDockerfile(root, req.Config.Build.Dockerfile); err != nil {
		return agentbox.Errorf(agentbox.Conflict, "%s: %w", req.Config.Build.Dockerfile, err)
	}
	return nil
}

// maxDockerfile bounds a Dockerfile, in bytes.
const maxDockerfile = 1 << 20

func readDockerfile(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxDockerfile {
		return nil, errors.Join(err, errors.New("not a regular file of at most 1 MiB"))
	}
	return io.ReadAll(io.LimitReader(f, maxDockerfile))
}

// copied lists what a Dockerfile copies of a context, as paths of the repository: the whole context
// where that is not plain. A file too many makes the same image anew, and no worse.
func copied(file []byte, context string) []string {
	text := strings.NewReplacer("\\\r\n", " ", "\\\n", " ", "`\n", " ").Replace(string(file))
	var paths []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		verb := strings.ToUpper(words[0])
		mounts := strings.Contains(line, "--mount")
		if verb != "COPY" && verb != "ADD" && verb != "ONBUILD" && !mounts {
			continue
		}
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "--") && !strings.HasPrefix(w, "--from=") })
		if len(words) > 0 && strings.HasPrefix(words[0], "--from=") && !mounts {
			continue // from another image
		}
		if verb == "ONBUILD" || mounts || len(words) < 2 || strings.ContainsAny(line, "*?[$<\"'\\") {
			return []string{context}
		}
		for _, name := range words[:len(words)-1] {
			if !strings.Contains(name, "://") {
				paths = append(paths, path.Join(context, path.Join("/", name)))
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// addFile adds a file of a repository to a digest: its name, mode, and content or target. One that
// is not there adds nothing.
func addFile(sum hash.Hash, root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%q %v\n", name, info.Mode())
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		to, err := root.Readlink(name)
		fmt.Fprintf(sum, "%q\n", to)
		return err
	case !info.Mode().IsRegular():
		return nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	n, err := io.Copy(sum, f)
	fmt.Fprintf(sum, "\n%d\n", n)
	return errors.Join(err, f.Close())
}
