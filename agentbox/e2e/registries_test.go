package e2e

import (
	"os"
	"os/exec"
	"sync"
)

// registriesAnswer tells whether npm and go get a package on this machine: where tests run there
// may be neither of them, or no network. Both are asked as the daemon of a script asks them,
// without what a user has configured at home.
var registriesAnswer = sync.OnceValue(func() bool {
	dir, err := os.MkdirTemp("", "registries-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	for _, argv := range [][]string{
		{"npm", "view", "once", "version"},
		{"go", "mod", "download", "-modcacherw", "github.com/google/uuid@v1.6.0"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "GOMODCACHE="+dir+"/mod", "GOFLAGS=-mod=mod", "GOWORK=off")
		if cmd.Run() != nil {
			return false
		}
	}
	return true
})
