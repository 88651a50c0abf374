package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// programs is the directory with Kubernetes' programs, and inside says that the cluster runs and that this
// process is in its namespaces.
const (
	programs        = "AGENTBOX_KUBERNETES"
	inside          = "CLUSTER_DIRECTORY"
	registryAddress = "10.88.7.1:5000"
)

// config has what the image of the tasks needs. Setup shows that it runs.
const config = "image: apt:bookworm\npackages: [busybox, git, inotify-tools, rsync]\nsetup: [echo set up]\n"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(programs) == "":
		os.Exit(m.Run()) // nothing runs
	case os.Getenv(inside) != "":
		go func() {
			log.Fatal(http.ListenAndServe(registryAddress, registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
		}()
		code := m.Run()
		_ = agentbox("daemon", "stop").Run()
		os.Exit(code)
	}
	os.Exit(outside())
}

// outside makes the image, as there is no network inside, and the cluster, and runs the tests in it.
func outside() int {
	dir, err := os.MkdirTemp("/tmp", "ab.k8s-")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv(inside, dir)
	os.Setenv("AGENTBOX_HOME", filepath.Join(dir, "h"))
	bin, _ := filepath.Abs(os.Getenv(programs))
	tool, _ := filepath.Abs("../../../tools/k8s/cluster")
	app := exec.Command("sh", "-ec", `mkdir app h; [ -z "$3" ] || cp -a "$3/images" h; cd app; git init -q .; git config user.email a@b.c; git config user.name n; printf "$1" >agentbox.yaml; git add .; git commit -qm one
		printf "registry: %s/boxes\nkubeconfig: $PWD/../c/admin.conf\n" "$2" >../h/k8s.yaml`, "-", config, registryAddress, os.Getenv("AGENTBOX_E2E_SEED"))
	app.Dir = dir
	build, stopDaemon, start := agentbox("image", "build"), agentbox("daemon", "stop"), exec.Command(tool, "start", dir+"/c", bin)
	defer exec.Command(tool, "stop", dir+"/c").Run()
	for _, c := range []*exec.Cmd{app, build, stopDaemon, start} {
		if out, err := c.CombinedOutput(); err != nil {
			log.Printf("%s: %v\n%s", c, err, out)
			return 1
		}
	}
	pid, err := os.ReadFile(dir + "/c/ns.pid")
	if err != nil {
		log.Print(err)
		return 1
	}
	here, _ := os.Getwd()
	again := exec.Command("nsenter", append([]string{"-t", strings.TrimSpace(string(pid)), "-m", "-n", "--wd=" + here, "--"}, os.Args...)...)
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	if err := again.Run(); err != nil {
		return 1
	}
	return 0
}

// agentbox is a command of the program, in the repository of the tasks.
func agentbox(args ...string) *exec.Cmd {
	program, _ := filepath.Abs("../../../bin/agentbox")
	cmd := exec.Command(program, args...)
	cmd.Dir = filepath.Join(os.Getenv(inside), "app")
	return cmd
}

func needCluster(t *testing.T) {
	if os.Getenv(programs) == "" {
		t.Skip("make e2e-k8s")
	}
}

// kubectl runs it as a user of the cluster.
func kubectl(user, input string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(os.Getenv(programs), "kubectl"), append([]string{"--kubeconfig", os.Getenv(inside) + "/c/" + user + ".conf"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func k(t *testing.T, args ...string) string {
	t.Helper()
	out, err := kubectl("admin", "", args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// eventually waits until something is said.
func eventually(t *testing.T, want string, ask func() string) {
	t.Helper()
	got := ""
	for until := time.Now().Add(4 * time.Minute); time.Now().Before(until); time.Sleep(300 * time.Millisecond) {
		if got = ask(); got == want {
			return
		}
	}
	t.Fatalf("it says %q, want %q", got, want)
}

// run makes a Job of busybox.
func run(t *testing.T, name, script, job, pod string) {
	t.Helper()
	command, _ := json.Marshal([]string{"/bin/busybox", "sh", "-c", script})
	text := fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":%q},"spec":{"backoffLimit":0,%s"template":{"spec":{%s"restartPolicy":"Never","automountServiceAccountToken":false,"terminationGracePeriodSeconds":1,
		"containers":[{"name":"c","image":"localhost/pause:1","imagePullPolicy":"Never","command":%s}]}}}}`, name, job, pod, command)
	if out, err := kubectl("admin", text, "create", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// conditions are those of a Job that are true, with their reasons.
func conditions(t *testing.T, name string) string {
	return k(t, "get", "job", name, "-o", `jsonpath={range .status.conditions[*]}{.type}={.status}/{.reason} {end}`)
}

func pods(t *testing.T, name string) string {
	return k(t, "get", "pods", "-l", "job-name="+name, "-o", `jsonpath={range .items[*]}{.status.phase}{.status.reason}{end}`)
}
