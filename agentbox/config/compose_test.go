package config

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// The box is the service that a devcontainer.json names, with what that file says itself first.
func TestDevcontainerOfComposeFile(t *testing.T) {
	root := write(t, map[string]string{
		".devcontainer/devcontainer.json": `{"dockerComposeFile": ["../docker-compose.yml", "more.yml"], "service": "app", "containerEnv": {"B": "file"}}`,
		"docker-compose.yml": `
x-common: &common
  environment: [A=1, "B=${B:-2}", HOST_ONLY, "C=$$HOME ${UNSET-}x${D:+y}", "E=${Q:-{a}}${F:-${G:-g}}"]
services:
  app:
    <<: *common
    build: {context: ., dockerfile: docker/Dockerfile, target: "${TARGET:-dev}", args: {VARIANT: 3, USER: }}
    volumes: ["..:/workspaces:cached"]
    depends_on: [db]
    init: true
    ports: ["8080:80", 3000, "127.0.0.1:5000:5001/tcp", {target: 9000, published: 9001}]
  db: {image: "postgres:16"}
`,
		".devcontainer/more.yml": "services:\n  app:\n    user: \"1001:1001\"\n    environment: {A: two}\n    command: sleep infinity\n  redis: {image: redis}\n",
	})
	c, err := Load(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	want := Build{Dockerfile: "docker/Dockerfile", Context: ".", Target: "dev", Args: map[string]string{"VARIANT": "3"}}
	if b := c.Build; b == nil || b.Dockerfile != want.Dockerfile || b.Context != want.Context || b.Target != want.Target || !maps.Equal(b.Args, want.Args) {
		t.Errorf("%+v", b)
	}
	if env := map[string]string{"A": "two", "B": "file", "C": "$HOME x", "E": "{a}g"}; !maps.Equal(c.Env, env) {
		t.Errorf("%q", c.Env)
	}
	if ports := []agentbox.ConfiguredPort{{Box: 80, Host: 8080}, {Box: 3000, Host: 3000}, {Box: 5001, Host: 5000}, {Box: 9000, Host: 9001}}; !slices.Equal(c.Ports, ports) {
		t.Errorf("%v", c.Ports)
	}
	all := strings.Join(c.Warnings, "\n")
	for _, want := range []string{
		"of service app is ignored: command, volumes", "variable `HOST_ONLY` of service app is left out", `"1001" is not a user name`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if got := started(c.Compose); got != "db redis" {
		t.Errorf("other services: %s", got)
	}
	if len(c.Warnings) != 3 {
		t.Errorf("%q", c.Warnings)
	}
}

func started(list []Composed) string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name)
	}
	return strings.Join(out, " ")
}

// The other services of a Compose file become services of the box, as far as a box can.
func TestOtherServicesOfComposeFile(t *testing.T) {
	root := write(t, map[string]string{
		".devcontainer.json": `{"dockerComposeFile": "dev/c.yml", "service": "app", "forwardPorts": ["db:5432"]}`,
		"dev/db.env":         "# of the database\nexport A=1\nB='two words'\nno variable\n",
		"dev/c.yml": `
services:
  app: {image: debian:12, depends_on: [web]}
  web:
    build: {context: ../web, target: dev}
    depends_on: {init: {condition: service_completed_successfully}, db: {condition: service_healthy}}
    command: sh -c "exec web --to '$$HOME' ${FLAGS:--v} ${HOST_ONLY}"
    working_dir: /srv
    volumes: ["../web:/srv:ro", "uploads:/files", "/var/run/docker.sock:/var/run/docker.sock", "../../up:/up", {type: npipe, target: /x}]
    expose: [80]
  init: {image: "busybox:1", entrypoint: [], command: ["true"], volumes: [{type: volume, source: uploads, target: /../../out, read_only: true}, /anonymous]}
  db:
    image: postgres:${TAG:-16}
    container_name: main-db
    hostname: "not a name"
    env_file: [db.env, {path: none.env}]
    environment: {B: three, SECRET: }
    user: "999:0"
    ports: ["5432:5432"]
    healthcheck: {test: ["CMD-SHELL", "pg_isready -U $${USER:-x}"], interval: 5s}
    deploy: {replicas: 2}
  other-web: {image: a, expose: ["80/tcp"], healthcheck: {test: ["CMD", a, b]}}
  debug: {image: b, profiles: [debug]}
  broken: {image: [1]}
  empty: {command: x}
`})
	c, err := Load(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	if got := started(c.Compose); got != "db init other-web web" {
		t.Fatalf("%s", got)
	}
	got, err := json.MarshalIndent(c.Compose, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden := "testdata/compose.golden"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != string(got) {
		t.Errorf("%s\n%v", got, err)
	}
	if ports := []agentbox.ConfiguredPort{{Box: 5432, Host: 5432}}; !slices.Equal(c.Ports, ports) {
		t.Errorf("%v", c.Ports)
	}
	for _, want := range []string{
		"of service db is ignored: deploy", "variable `SECRET` of service db is left out", "env_file of service db: cannot read dev/none.env", "${HOST_ONLY} is empty in service web",
		"volume /var/run/docker.sock of service web is left out", "volume ../../up of service web is left out", "a volume of service web is left out: npipe",
		"services other-web and web both serve port 80", "service broken of the Compose file is not started", "service empty of the Compose file is not started: it has neither",
	} {
		if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("no %q in %q", want, c.Warnings)
		}
	}
	if len(c.Warnings) != 10 {
		t.Errorf("%q", c.Warnings)
	}
}

// runServices chooses, with what those need; a circle of needs ends.
func TestRunServices(t *testing.T) {
	root := write(t, map[string]string{
		".devcontainer.json": `{"dockerComposeFile": "c.yml", "service": "app", "runServices": ["web"]}`,
		"c.yml":              "services: {app: {image: a}, web: {image: b, depends_on: [db]}, db: {image: c, profiles: [x], depends_on: [web]}, more: {image: d}}",
	})
	c, err := Load(context.Background(), root)
	if err != nil || started(c.Compose) != "db web" {
		t.Errorf("%s, %v", started(c.Compose), err)
	}
}

// Paths are relative to the first Compose file, whatever has the devcontainer.json.
func TestComposePaths(t *testing.T) {
	for compose, want := range map[string]string{
		"services: {app: {image: debian:12, user: dev}}":                   "debian:12",
		"services: {app: {image: 'x/y:${TAG:-1}'}}":                        "x/y:1",
		"services: {app: {build: svc}}":                                    "deploy/svc/Dockerfile in deploy/svc",
		"services: {app: {build: {dockerfile: D}}}":                        "deploy/D in deploy",
		"services: {app: {build: {context: ../.., dockerfile: deploy/D}}}": "",
		"services: {app: {build: {dockerfile_inline: FROM a}}}":            "",
		"services: {other: {image: a}}":                                    "",
		"services: [app]":                                                  "",
		"services: {app: {environment: 7, image: b}}":                      "",
		"a: &a [*a]": "",
		"":           "",
		"services: {app: {image: \"a\\u001b[31mb\"}}":                              "",
		"services: {app: {image: '${IMAGE}:${TAG:?}', environment: ['A=$X', B=]}}": "",
	} {
		root := write(t, map[string]string{".devcontainer/api/devcontainer.json": `{"dockerComposeFile": "../../deploy/c.yml", "service": "app"}`, "deploy/c.yml": compose})
		c, err := LoadAt(context.Background(), Place{Directory: root, Devcontainer: "api"})
		if err != nil {
			t.Errorf("%s: %v", compose, err)
			continue
		}
		got := c.Image
		if c.Build != nil {
			got = c.Build.Dockerfile + " in " + c.Build.Context
		}
		if strings.HasPrefix(got, "apt:") {
			got = ""
		}
		if got != want || want == "" && len(c.Warnings) == 0 {
			t.Errorf("%s: %q, %q", compose, got, c.Warnings)
		}
		for _, w := range c.Warnings {
			if w != agentbox.Printable(w) {
				t.Errorf("%s: %q", compose, w)
			}
		}
	}
}

// A link does not lead out of the repository.
func TestComposeFileBehindLink(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "c.yml")
	if err := os.WriteFile(outside, []byte("services: {app: {image: secret}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := write(t, map[string]string{".devcontainer.json": `{"dockerComposeFile": "c.yml", "service": "app"}`})
	if err := os.Symlink(outside, filepath.Join(root, "c.yml")); err != nil {
		t.Fatal(err)
	}
	c, err := Load(context.Background(), root)
	if err != nil || !strings.HasPrefix(c.Image, "apt:") || len(c.Warnings) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A command is what docker compose makes of it (findings/compose-command-operators.sh), and where that drops
// a part, there is a line.
func TestComposeOperators(t *testing.T) {
	for command, want := range map[string]struct {
		words []string
		cut   string
	}{
		"npm run build && npm start":         {[]string{"npm", "run", "build"}, "&& npm start"},
		"curl http://api/?a=1&b=2":           {[]string{"curl", "http://api/?a=1"}, "&b=2"},
		"echo hä 2> /log":                    {[]string{"echo", "hä"}, "2> /log"},
		`"run # all"`:                        {[]string{"run", "#", "all"}, ""},
		"sh -c 'npm run build && npm start'": {[]string{"sh", "-c", "npm run build && npm start"}, ""},
		`["npm", "&&", "start"]`:             {[]string{"npm", "&&", "start"}, ""},
		`a "b;c" d\;e`:                       {[]string{"a", "b;c", "d;e"}, ""},
	} {
		root := write(t, map[string]string{
			".devcontainer.json": `{"dockerComposeFile": "c.yml", "service": "app"}`,
			"c.yml":              "services:\n  app: {image: a}\n  web:\n    image: b\n    entrypoint: " + command + "\n",
		})
		c, err := Load(context.Background(), root)
		if err != nil || len(c.Compose) != 1 {
			t.Fatalf("%s: %v, %+v", command, err, c.Warnings)
		}
		if got := c.Compose[0].Entrypoint; !slices.Equal(got, want.words) {
			t.Errorf("%s: %q", command, got)
		}
		if all := strings.Join(c.Warnings, "\n"); want.cut == "" && all != "" || !strings.Contains(all, want.cut) {
			t.Errorf("%s: %s", command, all)
		}
	}
}

func FuzzCompose(f *testing.F) {
	f.Add([]byte("services: {app: {image: a, build: {context: ., args: [A=1]}, environment: [A, B=$C], ports: ['1:2', {target: 3}], user: a}, db: {}}"))
	f.Add([]byte("services: {app: {environment: {A: 1, B: }, build: x}}"))
	f.Add([]byte("services: {app: {image: a}, db: {image: b, command: 'a \"$X\"', healthcheck: {test: [CMD, a]}, volumes: ['./a:/b:ro', {type: bind, source: ., target: /c}], depends_on: {x: {condition: y}}, env_file: c.yml, expose: [1]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "c.yml"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := parseDevcontainer([]byte(`{"dockerComposeFile": "c.yml", "service": "app"}`), source{name: ".devcontainer.json", root: root, home: "/h"}, "")
		check(t, c, err)
	})
}
