package e2e

import (
	"os"
	"os/exec"
	"sync"
)

// registriesAnswer reports whether npm and go can get a package on this machine, which may lack
// these programs or a network. Both run as the daemon of a script runs them, without the user's
// configuration.
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
