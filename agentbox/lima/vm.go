package lima

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"

	"agentbox/agentbox"
	"agentbox/agentbox/background"
)

// Name is the machine that a home has.
const Name = "agentbox"

// The states of a machine, as Lima names them.
const (
	Stopped = "Stopped"
	Running = "Running"
	Broken  = "Broken"
)

// Instance is what Lima knows of a machine.
type Instance struct {
	Name      string   `json:"name"`
	Status    string   `json:"status"`
	Directory string   `json:"directory"`
	Driver    string   `json:"driver"` // qemu or vz
	CPUs      int      `json:"cpus"`
	Memory    int64    `json:"memory"` // bytes
	Disk      int64    `json:"disk"`   // bytes
	SSHConfig string   `json:"ssh_config"`
	Host      string   `json:"host"` // its name in SSHConfig
	Port      int      `json:"port,omitempty"`
	Lima      string   `json:"lima"` // the version that made it
	Errors    []string `json:"errors,omitempty"`
}

// VM is one machine of a Lima home.
type VM struct {
	Program  string // agentbox-lima, unpacked
	Home     string // LIMA_HOME
	Name     string
	Progress agentbox.Progress
	// Emulated tells whether the processor has to be emulated although KVM can be opened; nil if nobody
	// knows.
	Emulated func(context.Context) bool

	emulate bool
}

// Emulate is a variable of the program's environment: with any value it starts a machine without KVM.
const Emulate = "AGENTBOX_LIMA_EMULATE"

// Inspect returns what Lima knows of the machine. The error is NotFound if there is none.
func (vm VM) Inspect(ctx context.Context) (Instance, error) { return vm.run(ctx, nil, "inspect") }

// Create makes the machine, and does not start it. The error is Exists if there is one.
func (vm VM) Create(ctx context.Context, d Description) (Instance, error) {
	text, err := d.YAML()
	if err != nil {
		return Instance{}, err
	}
	if err := os.MkdirAll(vm.Home, 0o700); err != nil {
		return Instance{}, agentbox.MarkNoSpace(err)
	}
	return vm.run(ctx, bytes.NewReader(text), "create")
}

// Start starts the machine unless it runs, and waits until it answers. What a crash left of it is
// cleared first; its disk remains.
func (vm VM) Start(ctx context.Context) (Instance, error) {
	inst, err := vm.Inspect(ctx)
	if err != nil {
		return inst, err
	}
	if inst.Status != Running {
		done := vm.Progress.Begin("lima", "starting the machine")
		vm.emulate = vm.Emulated != nil && vm.Emulated(ctx)
		if inst, err = vm.run(ctx, nil, "start"); err != nil {
			return inst, err
		}
		done("")
	}
	return inst, vm.awaken(ctx, inst)
}

// Stop shuts the machine down. Its boxes stop, as if the host was shut down.
func (vm VM) Stop(ctx context.Context) (Instance, error) { return vm.run(ctx, nil, "stop") }

// Delete removes the machine with everything in it.
func (vm VM) Delete(ctx context.Context) error {
	_, err := vm.run(ctx, nil, "delete")
	return err
}

// Command is a command in the machine, by the connection that Lima's host agent keeps open if there
// is one. It has no streams yet.
func (inst Instance) Command(ctx context.Context, argv ...string) *exec.Cmd {
	return inst.ssh(ctx, argv)
}

func (inst Instance) ssh(ctx context.Context, argv []string, options ...string) *exec.Cmd {
	args := append([]string{"-F", inst.SSHConfig, "-o", "ControlMaster=no", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"}, options...)
	return exec.CommandContext(ctx, "ssh", append(args, inst.Host, "--", shellescape.QuoteCommand(argv))...)
}

// answerWithin bounds how long a machine that Lima calls running may not answer: another command may
// be starting it, and an emulated one takes a minute.
const answerWithin = 3 * time.Minute

// awaken waits until the machine answers, and corrects its clock, which stood still while the host
// slept: certificates and git's dates depend on it.
func (vm VM) awaken(ctx context.Context, inst Instance) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for {
		// By a connection of its own: the shared one may be of a life before, and answer never.
		out, err := inst.ssh(ctx, []string{"date", "+%s"}, "-o", "ControlPath=none").CombinedOutput()
		if err == nil {
			return inst.correctClock(ctx, strings.TrimSpace(string(out)))
		}
		if !background.Sleep(ctx, time.Second) {
			return agentbox.Errorf(agentbox.Unavailable, "the Lima machine %s runs but does not answer: %s", inst.Name, lastLine(out)).
				WithHint("agentbox lima stop, then the command again; its console is %s", filepath.Join(inst.Directory, "serial*.log"))
		}
	}
}

// maxClockError is how far the machine's clock may be from the host's, in seconds.
const maxClockError = 2

func (inst Instance) correctClock(ctx context.Context, text string) error {
	theirs, err := strconv.ParseInt(text, 10, 64)
	now := time.Now().Unix()
	if err == nil && max(now-theirs, theirs-now) <= maxClockError {
		return nil
	}
	if out, err := inst.Command(ctx, "sudo", "-n", "date", "-s", "@"+strconv.FormatInt(now, 10)).CombinedOutput(); err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "cannot set the clock of the Lima machine %s: %s", inst.Name, lastLine(out))
	}
	return nil
}

// programPath is where the machine has our program.
const programPath = "/usr/local/bin/agentbox"

// install brings a program into the machine unless it has these bytes, and what boxes need of
// Debian. It replaces a former one, which may run.
const install = `set -e
command -v newuidmap >/dev/null && command -v mmdebstrap >/dev/null && command -v git >/dev/null || {
	sudo -n apt-get -qq update && sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends git mmdebstrap uidmap >&2
}
echo "$1  ` + programPath + `" | sha256sum --status -c 2>/dev/null && exit
sudo -n sh -c 'cat >"$0.new" && chmod 755 "$0.new" && mv -f "$0.new" "$0"' ` + programPath + `
`

// Bring puts a build of this program for Linux into the machine, with what it needs there, and
// returns its path.
func (inst Instance) Bring(ctx context.Context, binary string) (string, error) {
	f, err := os.Open(binary)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	cmd := inst.Command(ctx, "sh", "-c", install, "sh", hex.EncodeToString(h.Sum(nil)))
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = f, &stderr
	if err := cmd.Run(); err != nil {
		return "", agentbox.Errorf(agentbox.Unavailable, "cannot bring agentbox into the Lima machine %s: %s", inst.Name, lastLine(stderr.Bytes())).
			WithHint("agentbox lima shell opens a shell in it")
	}
	return programPath, nil
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
