package kernel

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// needed modules are those without which a machine does not come up, unless they are built in. They
// are virtio's transport and devices, and the file systems of image, runtime layer and workspace.
var needed = []string{"virtio_mmio", "virtio_blk", "virtio_console", "erofs", "ext4", "overlay"}

// wanted modules are loaded when the kernel has them. Every one costs boot time and memory in each
// box.
var wanted = []string{"virtio_pci", "virtio_rng", "virtio_net", "fuse", "tun", "unix"}

// maxModule bounds a decompressed module.
const maxModule = 64 << 20

// modules is a directory lib/modules/<release>. What depends on what is read from the modules
// themselves, since a kernel package as it is downloaded has no modules.dep: that is made by depmod
// when it is installed.
type modules struct {
	root  fs.FS
	files map[string]string // name -> path
	// Names as the kernel knows them, with underscores, in both.
	builtin map[string]bool
}

// indexModules lists what a module directory has. root is a directory lib/modules/<release>.
// Built-in modules are listed by the kernel's own build in modules.builtin; a kernel without that
// list is taken to have none.
func indexModules(root fs.FS) (*modules, error) {
	t := &modules{root: root, files: map[string]string{}, builtin: map[string]bool{}}
	list, err := fs.ReadFile(root, "modules.builtin")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.FieldsSeq(string(list)) {
		t.builtin[moduleName(line)] = true
	}
	err = fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(path.Base(p), ".ko") {
			// Modules made by the distribution come before those a user compiled (extra, updates).
			if name := moduleName(p); t.files[name] == "" || strings.HasPrefix(p, "kernel/") {
				t.files[name] = p
			}
		}
		return err
	})
	if err == nil && len(t.files) == 0 && len(t.builtin) == 0 {
		err = errors.New("it holds no modules")
	}
	return t, err
}

// moduleName is the name the kernel knows a file by. Files may have dashes where the kernel has
// underscores, and endings of a compression.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// resolve reads the named modules and all they depend on, in an order in which they can be loaded.
// A missing needed module, or a missing dependency of any, is an error that names the chain; a
// missing wanted one is not.
func (t *modules) resolve(needed, wanted []string) ([]module, error) {
	r := resolver{tree: t, state: map[string]int{}}
	there := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return t.files[name] == "" })
	for _, name := range slices.Concat(needed, there) {
		if err := r.visit(name); err != nil {
			return nil, err
		}
	}
	return r.order, nil
}

// resolver walks dependencies depth first, so each module comes after what it depends on.
type resolver struct {
	tree  *modules
	state map[string]int // 1 under way, 2 done
	order []module
}

// visit adds a module and what it depends on to order. A module that is built in needs nothing. A
// circle of hard dependencies cannot be loaded and is an error; one that only a soft dependency
// closes is cut there.
func (r *resolver) visit(name string) error {
	if r.tree.builtin[name] || r.state[name] == 2 {
		return nil
	}
	if r.state[name] == 1 {
		return fmt.Errorf("module %s depends on itself", name)
	}
	file := r.tree.files[name]
	if file == "" {
		return fmt.Errorf("the kernel has no module %s", name)
	}
	r.state[name] = 1
	data, err := readModule(r.tree.root, file)
	if err != nil {
		return fmt.Errorf("module %s: %w", file, err)
	}
	depends, soft, err := dependencies(data)
	if err != nil {
		return fmt.Errorf("module %s: %w", file, err)
	}
	// A soft dependency that is under way already is left out: it would be a circle.
	for _, d := range soft {
		if r.tree.files[d] != "" && r.state[d] != 1 {
			depends = append(depends, d)
		}
	}
	for _, d := range depends {
		if err := r.visit(d); err != nil {
			return fmt.Errorf("%w, needed by %s", err, name)
		}
	}
	r.state[name] = 2
	r.order = append(r.order, module{Name: name, Digest: digest(data), data: data})
	return nil
}

// dependencies reads the .modinfo section: hard dependencies, and those that should come before if
// they exist. The section is a list of NAME=VALUE with zeros between them. Names are as the kernel
// knows them.
func dependencies(data []byte) (hard, soft []string, err error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, nil, errors.New("it has no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return nil, nil, err
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			for d := range strings.SplitSeq(list, ",") {
				hard = append(hard, moduleName(d))
			}
		}
		if list, ok := strings.CutPrefix(field, "softdep=pre:"); ok {
			list, _, _ = strings.Cut(list, "post:")
			for d := range strings.FieldsSeq(list) {
				soft = append(soft, moduleName(d))
			}
		}
	}
	return slices.Compact(hard), soft, nil
}

// readModule reads a module, decompressed.
func readModule(root fs.FS, file string) ([]byte, error) {
	f, err := root.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	switch path.Ext(file) {
	case ".xz":
		r, err = xz.NewReader(f)
	case ".gz":
		r, err = gzip.NewReader(f)
	case ".zst":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxModule)); err == nil {
			defer d.Close()
			r = d
		}
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxModule+1))
	if err == nil && len(data) > maxModule {
		err = fmt.Errorf("it is larger than %d bytes", maxModule)
	}
	return data, err
}
