package workspace

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// maxAttributes bounds a .gitattributes file, in bytes, and maxDrivers the notes about them.
const (
	maxAttributes = 1 << 20
	maxDrivers    = 20
)

// driver matches an attribute that names a program: filter=NAME, diff=NAME or merge=NAME.
var driver = agentbox.Pattern(`^(filter|diff|merge)=(.+)$`)

// builtIn are the drivers that git has itself, and lfs, whose program comes into a box by detection.
var builtIn = map[string][]string{
	"filter": {"lfs"},
	"diff": {"lfs", "ada", "bash", "bibtex", "cpp", "csharp", "css", "default", "dts", "elixir", "fortran", "fountain", "golang", "html", "ini", "java", "kotlin", "markdown", "matlab", "objc",
		"pascal", "perl", "php", "python", "ruby", "rust", "scheme", "tex"},
	"merge": {"lfs", "text", "binary", "union"},
}

// noteAttributes notes each driver that the attributes of a repository's files name: git in the box
// needs its program, or does not know it. The files come as they are here.
func (s *stager) noteAttributes(repo Repo, local []git.Setting, paths []string) {
	var noted []string
	for _, name := range paths {
		if path.Base(name) != ".gitattributes" {
			continue
		}
		text, err := git.ReadPlain(filepath.Join(repo.Root, filepath.FromSlash(name)), maxAttributes)
		if err != nil {
			continue // git does without it, too
		}
		for _, d := range drivers(string(text)) {
			kind, of, _ := strings.Cut(d, "=")
			if slices.Contains(builtIn[kind], of) || slices.Contains(noted, d) || len(noted) >= maxDrivers {
				continue
			}
			noted = append(noted, d)
			program := ""
			for _, key := range []string{"clean", "process", "command", "textconv", "driver"} {
				program += settingValue(local, kind+"."+of+"."+key) + " "
			}
			if words := strings.Fields(program); len(words) > 0 {
				s.note("%q of %s needs the program %q in the box", d, name, words[0])
			} else {
				s.note("%q of %s names a program that git in the box is not told of: it does without", d, name)
			}
		}
	}
}

// drivers returns the drivers that a .gitattributes file names, such as filter=crypt.
func drivers(text string) (found []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		for _, f := range fields[1:] {
			if driver().MatchString(f) {
				found = append(found, f)
			}
		}
	}
	return found
}
