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

// requiredModules modules are those without which no machine boots, unless they are built in:
// virtio's transport and devices, and the file systems of image, runtime layer and workspace.
var requiredModules = []string{"virtio_mmio", "virtio_blk", "virtio_console", "erofs", "ext4", "overlay"}

// optionalModules are loaded if the kernel has them. Each costs every box time and memory.
var optionalModules = []string{"virtio_pci", "virtio_rng", "virtio_net", "fuse", "tun", "unix"}

// maxModule is the most bytes of a decompressed module.
const maxModule = 64 << 20

// modules is a directory lib/modules/<release>. Names are as the kernel knows them (moduleName).
// Dependencies are read from the modules themselves: a downloaded kernel package has no
// modules.dep, which depmod makes when the package is installed.
type modules struct {
	root    fs.FS
	files   map[string]string // paths by name
	builtin map[string]bool
}

// indexModules lists the modules of a directory lib/modules/<release>. The file modules.builtin has
// those that are built in; without it there are none.
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
			// The distribution's modules take precedence over the user's (extra, updates).
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

// moduleName returns the kernel's name of a module file: underscores instead of dashes, and without
// the extensions.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// resolve reads the named modules and their dependencies, in load order. A missing needed module is
// an error, and so is a missing dependency, whose error names the chain. A missing wanted module is
// left out.
func (m *modules) resolve(needed, wanted []string) ([]module, error) {
	r := resolver{tree: m, state: map[string]int{}}
	there := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return m.files[name] == "" })
	for _, name := range slices.Concat(needed, there) {
		if err := r.visit(name); err != nil {
			return nil, err
		}
	}
	return r.order, nil
}

// resolver walks dependencies depth first, so each module comes after those that it depends on.
type resolver struct {
	tree  *modules
	state map[string]int // 1 while it is visited, 2 when it is in order
	order []module
}

// visit adds a module and its dependencies to order, unless it is built in. A cycle of hard
// dependencies cannot be loaded and is an error. A cycle with a soft dependency is cut there.
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
	// A soft dependency that is being visited would be a cycle.
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

// dependencies reads the .modinfo section of a module, a list of NAME=VALUE separated by zeros. It
// returns the hard dependencies, and the soft ones that should be loaded before if they exist.
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
