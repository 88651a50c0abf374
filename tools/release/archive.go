package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// pack makes the archive of a platform, and for Linux the packages of the two families.
func (r *release) pack(t target, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	all := append([]file{{"agentbox", content, 0o755}}, r.pages...)
	if err := r.archive(r.name(t), all); err != nil {
		return err
	}
	if t.os != "linux" {
		return nil
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.systemPackage(format, t, program); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) archive(name string, all []file) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, f := range all {
		h := &tar.Header{Name: name + "/" + f.name, Size: int64(len(f.content)), Mode: int64(f.mode), ModTime: r.time, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(r.path(name+".tar.gz"), b.Bytes(), 0o644)
}

// installed is where a package puts what an archive has, by the directory there.
var installed = []struct{ from, to string }{
	{"man/", "/usr/share/man/man1/"},
	{"completions/agentbox.bash", "/usr/share/bash-completion/completions/agentbox"},
	{"completions/agentbox.zsh", "/usr/share/zsh/vendor-completions/_agentbox"},
	{"completions/agentbox.fish", "/usr/share/fish/vendor_completions.d/agentbox.fish"},
	{"", "/usr/share/doc/agentbox/"},
}

// systemPackage makes a package that installs on a bare system: the program is static. What images of
// Debian packages, users without root and microVMs need besides is recommended, so apt brings it.
func (r *release) systemPackage(format string, t target, program string) error {
	tmp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	contents, err := r.contents(tmp, program)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "agentbox", Arch: t.arch, Platform: t.os, Version: r.version, Section: "devel", Priority: "optional",
		Maintainer: "The agentbox authors <agentbox@example.com>", License: "Apache-2.0", MTime: r.time,
		Description:  "isolated, resettable workstations for coding agents",
		Overridables: nfpm.Overridables{Contents: contents, Recommends: recommended[format]},
	})
	info.RPM.BuildHost = "localhost" // it would be the name of this machine
	if info, err = prepared(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	return r.write(r.name(t)+"."+format, func(w io.Writer) error { return packager.Package(info, w) })
}

// prepared settles what nfpm derives from the files, as its own command does.
func prepared(info *nfpm.Info, format string) (*nfpm.Info, error) {
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return nil, err
	}
	return info, info.Validate()
}

// recommended are the packages that boxes may need, by the names of each family.
var recommended = map[string][]string{
	"deb": {"git", "mmdebstrap", "uidmap", "qemu-system-x86", "e2fsprogs"},
	"rpm": {"git", "mmdebstrap", "shadow-utils", "qemu-kvm", "e2fsprogs"},
}

// contents are the files of a package. nfpm takes them from files, so the pages are written below tmp.
func (r *release) contents(tmp, program string) (files.Contents, error) {
	all := files.Contents{r.content(program, "/usr/bin/agentbox", 0o755)}
	for i, f := range r.pages {
		from := tmp + "/" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		content, to := f.content, place(f.name)
		if to[:len("/usr/share/man")] == "/usr/share/man" {
			content, to = compressed(content), to+".gz"
		}
		if err := os.WriteFile(from, content, 0o644); err != nil {
			return nil, err
		}
		all = append(all, r.content(from, to, 0o644))
	}
	return all, nil
}

func (r *release) content(from, to string, mode os.FileMode) *files.Content {
	return &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}}
}

// place is where a package puts a file of the archives.
func place(name string) string {
	for _, in := range installed {
		if len(name) >= len(in.from) && name[:len(in.from)] == in.from {
			return in.to + name[len(in.from):]
		}
	}
	return "" // not reached: the last one fits every name
}

// compressed is content as gzip writes it with -n, which Debian's policy asks of man pages.
func compressed(content []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	z.Write(content) // into memory: no error
	z.Close()
	return b.Bytes()
}

func (r *release) write(name string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(r.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := fill(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
