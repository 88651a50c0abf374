package toolchain

import (
	"path"

	"agentbox/agentbox"

	"github.com/pelletier/go-toml/v2"
)

// pythonSpecifier matches a list of version specifiers (PEP 440), or a version.
var pythonSpecifier = agentbox.Pattern(`^[0-9*.<>=~!^, ]{1,80}$`)

// pyproject is the part of pyproject.toml with the version of Python.
type pyproject struct {
	Project struct {
		RequiresPython string `toml:"requires-python"`
	} `toml:"project"`
	Tool struct {
		Poetry struct {
			Dependencies map[string]any `toml:"dependencies"`
		} `toml:"poetry"`
	} `toml:"tool"`
}

// readPython reads the pin and the project's range. Other files only show that it is Python.
func readPython(s *scan, dir string) {
	file := path.Join(dir, ".python-version")
	if content, ok := s.read(file); ok {
		s.need(needOf(Python, file, "", firstWord(content)))
	}
	file = path.Join(dir, "pyproject.toml")
	if content, ok := s.read(file); ok {
		s.need(pyprojectNeed(file, content))
	}
	for _, name := range []string{"requirements.txt", "setup.py", "Pipfile", "tox.ini"} {
		if file := path.Join(dir, name); s.has(file) {
			s.need(Need{Tool: Python, File: file})
		}
	}
	s.lock(dir, "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt")
}

func pyprojectNeed(file, content string) Need {
	var p pyproject
	if toml.Unmarshal([]byte(content), &p) != nil {
		return Need{Tool: Python, File: file} // its own tools explain best what is wrong with it
	}
	if v := p.Project.RequiresPython; v != "" {
		return needOf(Python, file, "project.requires-python", v)
	}
	v, _ := p.Tool.Poetry.Dependencies["python"].(string)
	return needOf(Python, file, "tool.poetry.dependencies.python", v)
}
