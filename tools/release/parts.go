package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/module"
)

// part is a module that is linked into one of the programs, as the program itself says.
type part struct{ path, version, sum string }

// carried are the programs that the one for Linux carries, below the checkout.
var carried = []string{"agentbox/programs/embedded/*.zst", "vmm/gvisor/runsc/embedded/*.zst", "vmm/guest/embedded/agentbox-guest-*.gz"}

// parts are the modules of all programs: those just built, and those that they carry.
func (r *release) parts(programs []string) ([]part, error) {
	found := map[part]bool{}
	add := func(name string, content []byte, err error) error {
		if err != nil {
			return err
		}
		info, err := buildinfo.Read(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		found[part{"std", info.GoVersion, ""}] = true
		for _, m := range info.Deps {
			if m.Replace != nil && m.Replace.Version != "" {
				m = m.Replace
			}
			if m.Version != "(devel)" {
				found[part{m.Path, m.Version, m.Sum}] = true
			}
		}
		return nil
	}
	for _, name := range programs {
		b, err := os.ReadFile(name)
		if err := add(name, b, err); err != nil {
			return nil, err
		}
	}
	for _, pattern := range carried {
		names, err := filepath.Glob(filepath.Join(r.root, pattern))
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("no %s: make build makes them (%v)", pattern, err)
		}
		for _, name := range names {
			b, err := unpacked(name)
			if err := add(name, b, err); err != nil {
				return nil, err
			}
		}
	}
	var all []part
	for p := range found {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b part) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version)) })
	return all, nil
}

func unpacked(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		_, err = out.ReadFrom(z)
		return out.Bytes(), err
	}
	z, err := zstd.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	_, err = out.ReadFrom(z)
	return out.Bytes(), err
}

// licences are the texts that the modules' authors ask to be handed on, from Go's cache of modules.
func licences(parts []part) ([]byte, error) {
	cache, err := (&release{root: "."}).output("go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	goroot, err := (&release{root: "."}).output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, p := range parts {
		if p.path == "std" {
			b, err := os.ReadFile(filepath.Join(goroot, "LICENSE"))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "==== Go %s: LICENSE\n\n%s\n", p.version, b)
			continue
		}
		escaped, err := module.EscapePath(p.path)
		if err != nil {
			return nil, err
		}
		version, err := module.EscapeVersion(p.version)
		if err != nil {
			return nil, err
		}
		names, err := filepath.Glob(filepath.Join(cache, escaped+"@"+version, "[LCN][IOoi][CPTct][EYIei]*"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil { // a directory of them is left out
				fmt.Fprintf(&out, "==== %s %s: %s\n\n%s\n", p.path, p.version, filepath.Base(name), b)
			}
		}
	}
	return out.Bytes(), nil
}

// bill writes the list of the parts, as CycloneDX.
func (r *release) bill(parts []part) error {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.time.Format("2006-01-02T15:04:05Z"),
		Component: &cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, BOMRef: "agentbox", Name: "agentbox", Version: r.version},
	}
	components := []cyclonedx.Component{}
	for _, p := range parts {
		url := "pkg:golang/" + p.path + "@" + p.version
		components = append(components, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: p.path, Version: p.version, PackageURL: url,
		})
	}
	bom.Components = &components
	var b bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(r.path("agentbox-"+r.version+".cdx.json"), b.Bytes(), 0o644)
}

func indented(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}
