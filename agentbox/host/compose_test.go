package host

import (
	"maps"
	"slices"
	"testing"

	"agentbox/agentbox/config"
	"agentbox/vmm/guest/protocol"
	"agentbox/vmm/image"
)

// What the file says of a service comes before what its image says, by the rules of Compose.
func TestComposedService(t *testing.T) {
	program := &image.Program{Entrypoint: []string{"entry"}, Command: []string{"serve"}, Dir: "/data", User: "7"}
	roots := []image.Root{{At: rootOf("db"), Env: []string{"A=image", "B=image", "odd"}, Program: program}, {At: rootOf("bare")}}
	for _, c := range []struct {
		entrypoint, command []string
		argv                []string
	}{
		{nil, nil, []string{"entry", "serve"}},
		{nil, []string{"other"}, []string{"entry", "other"}},
		{nil, []string{}, []string{"entry"}},
		{[]string{"mine"}, nil, []string{"mine"}},
		{[]string{"mine"}, []string{"x"}, []string{"mine", "x"}},
		{[]string{}, []string{"x"}, []string{"x"}},
	} {
		in := config.Composed{Service: config.Service{Name: "db", Env: map[string]string{"A": "file"}, Container: &protocol.Container{}}, Entrypoint: c.entrypoint, Command: c.command}
		s, why := composedService(in, roots)
		if why != "" || !slices.Equal(s.Container.Argv, c.argv) || s.Container.User != "7" || s.Container.Dir != "/data" || !maps.Equal(s.Env, map[string]string{"A": "file", "B": "image"}) {
			t.Errorf("%q %q: %+v %+v, %s", c.entrypoint, c.command, s, s.Container, why)
		}
		if in.Container.Argv != nil || len(in.Env) != 1 {
			t.Error("the configuration was changed")
		}
	}
	for _, name := range []string{"bare", "elsewhere"} {
		if _, why := composedService(config.Composed{Service: config.Service{Name: name, Container: &protocol.Container{}}}, roots); why == "" {
			t.Errorf("%s runs something", name)
		}
	}
}
