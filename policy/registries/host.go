package registries

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// toolTime bounds one tool: npm takes a second to say its registry, on a loaded machine several.
const toolTime = 20 * time.Second

// Host is this machine, as a user with this environment sees it.
func Host(directory string, environ []string) Machine {
	m := Machine{Root: os.DirFS("/"), Directory: directory, Env: map[string]string{}}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		m.Env[name] = value
	}
	m.Home = strings.TrimPrefix(m.Env["HOME"], "/")
	m.Run = func(ctx context.Context, argv ...string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, toolTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		// Not in the repository: tools read configuration, and run programs, from where they stand.
		cmd.Dir, cmd.Env = "/", environ
		cmd.WaitDelay = toolTime // begins with the end of the tool too, and a busy machine takes its time to read
		out, err := cmd.Output()
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // not that it was killed
		}
		return string(out), err
	}
	return m
}
