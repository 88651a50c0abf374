package toolchain

import (
	"path"
	"strings"

	"agentbox/agentbox"

	"golang.org/x/mod/modfile"
)

// goVersion matches a Go version as in go.mod: 1.22, 1.22.3, 1.23rc1. Its numbers are bounded, like
// everything that comes from a file.
var goVersion = agentbox.Pattern(`^1\.[0-9]{1,3}(\.[0-9]{1,3}|(rc|beta)[0-9]{1,2})?$`)

// readGo reads go.mod and go.work: the versions of modules and of a workspace.
func readGo(s *scan, dir string) {
	for _, name := range []string{"go.mod", "go.work"} {
		file := path.Join(dir, name)
		if content, ok := s.read(file); ok {
			s.need(goNeed(file, content))
		}
	}
	s.lock(dir, "go.sum", "go.work.sum")
}

// goNeed returns the need for the newer version of the toolchain line and the go line, as the go
// command does. A file that does not parse still needs Go, whose message is the best.
func goNeed(file, content string) Need {
	language, toolchain := goLines(file, content)
	if v, ok := strings.CutPrefix(toolchain, "go"); ok && goVersion().MatchString(v) && Newest([]string{v, language}) == v {
		return needOf(Go, file, "toolchain", v)
	}
	return needOf(Go, file, "go", language)
}

// goLines returns both lines of go.mod or go.work; "" for one that is absent or unreadable.
func goLines(file, content string) (language, toolchain string) {
	if strings.HasSuffix(file, "go.work") {
		f, err := modfile.ParseWork(file, []byte(content), nil)
		if err == nil && f.Go != nil {
			language = f.Go.Version
		}
		if err == nil && f.Toolchain != nil {
			toolchain = f.Toolchain.Name
		}
		return language, toolchain
	}
	f, err := modfile.ParseLax(file, []byte(content), nil)
	if err == nil && f.Go != nil {
		language = f.Go.Version
	}
	// ParseLax ignores the toolchain line, like everything that only the main module may declare.
	if f, err := modfile.Parse(file, []byte(content), nil); err == nil && f.Toolchain != nil {
		toolchain = f.Toolchain.Name
	}
	return language, toolchain
}

// clip shortens text from a file and removes control characters, so that it can be shown.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return s
}
