package toolchain

import (
	"path"

	"agentbox/agentbox"
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

func readMarkers(s *scan, dir string) {
	for _, m := range markers {
		if file := path.Join(dir, m.file); s.has(file) {
			s.need(Need{Tool: m.tool, File: file})
		}
	}
	s.lock(dir, "Gemfile.lock", "composer.lock", "gradle.lockfile")
	// Without it, git in a box would commit the files themselves in place of their pointers.
	attributes := path.Join(dir, ".gitattributes")
	if content, ok := s.read(attributes); ok && usesLFS().MatchString(content) {
		s.need(Need{Tool: LFS, File: attributes})
	}
}

// usesLFS matches a line of .gitattributes that leaves files to Git LFS.
var usesLFS = agentbox.Pattern(`(?m)^[ \t]*[^# \t\n][^\n]*[ \t]filter=lfs([ \t\r]|$)`)
