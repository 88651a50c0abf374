package config

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ecosystem is what a file of the repository tells about the tools it needs.
type ecosystem struct {
	marker   string
	packages []string
	locks    []string // every one that exists is a lockfile of the repository
}

var ecosystems = []ecosystem{
	{"go.mod", []string{"golang"}, []string{"go.sum", "go.work.sum"}},
	{"package.json", []string{"nodejs", "npm"}, []string{"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock"}},
	{"pyproject.toml", []string{"python3", "python3-pip", "python3-venv"}, []string{"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt"}},
	{"Cargo.toml", []string{"cargo", "rustc"}, []string{"Cargo.lock"}},
	{"Makefile", []string{"make"}, nil},
}

// basePackages are what every detected box has: a repository without tools still needs its history.
var basePackages = []string{"ca-certificates", "git"}

type findings struct {
	markers, packages, lockfiles []string
}

// inspect looks at the files of dir; the lockfiles it reports are relative to root.
func inspect(dir, root string) findings {
	f := findings{packages: slices.Clone(basePackages)}
	prefix, err := filepath.Rel(root, dir)
	if err != nil {
		return f
	}
	for _, e := range ecosystems {
		if !isFile(dir, e.marker) {
			continue
		}
		f.markers = append(f.markers, e.marker)
		f.packages = append(f.packages, e.packages...)
		for _, lock := range e.locks {
			if isFile(dir, lock) {
				f.lockfiles = append(f.lockfiles, filepath.ToSlash(filepath.Join(prefix, lock)))
			}
		}
	}
	slices.Sort(f.packages)
	slices.Sort(f.lockfiles)
	return f
}

func isFile(dir, name string) bool {
	fi, err := os.Stat(filepath.Join(dir, name))
	return err == nil && fi.Mode().IsRegular()
}

// detect makes the configuration of a repository that has none, from the nearest directory upward that tells anything.
func detect(root, dir string) (*Config, error) {
	dir, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	c := defaults()
	c.Root = root
	found := inspect(root, root)
	for _, d := range upward(dir) {
		if f := inspect(d, root); len(f.markers) > 0 {
			found = f
			break
		}
	}
	c.complete(found)
	c.Source = "detected " + cmp.Or(strings.Join(found.markers, ", "), "nothing: defaults")
	return c, nil
}
