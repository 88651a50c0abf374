package toolchain

import (
	"path"
	"strings"
)

// markers are files whose presence asks for a tool in any version.
var markers = []struct {
	file string
	tool Tool
}{
	{"Makefile", Make}, {"makefile", Make}, {"GNUmakefile", Make},
	{"CMakeLists.txt", CMake}, {"meson.build", Meson},
	{"configure.ac", Autotools}, {"configure.in", Autotools},
	{"pom.xml", Java}, {"build.gradle", Java}, {"build.gradle.kts", Java},
	{"Gemfile", Ruby}, {"composer.json", PHP},
}

// readMarkers adds needs for the markers of a directory.
func readMarkers(s *scan, dir string) {
	for _, m := range markers {
		if file := path.Join(dir, m.file); s.has(file) {
			s.need(Need{Tool: m.tool, File: file})
		}
	}
	s.lock(dir, "Gemfile.lock", "composer.lock", "gradle.lockfile")
}

// toolVersions are the names that asdf and mise use for tools that we install.
var toolVersions = map[string]Tool{"golang": Go, "go": Go, "nodejs": Node, "node": Node, "python": Python, "rust": Rust}

// readToolVersions reads the pins of asdf and mise: a tool and its version on each line.
func readToolVersions(s *scan, dir string) {
	file := path.Join(dir, ".tool-versions")
	content, ok := s.read(file)
	if !ok {
		return
	}
	for line := range strings.Lines(content) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 1 && toolVersions[fields[0]] != "" {
			s.need(needOf(toolVersions[fields[0]], file, fields[0], fields[1]))
		}
	}
}
