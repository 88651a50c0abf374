// Command agentbox-lima carries out one act on one machine of a Lima home, by Lima's library. It is
// embedded in agentbox (agentbox/programs), and run by package lima, for which it writes its log as
// lines of JSON to standard error, and what Lima then knows of the machine to standard output.
//
// Usage: agentbox-lima inspect|create|start|stop|delete NAME, and Lima's own hostagent.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	_ "github.com/lima-vm/lima/v2/pkg/driver/qemu"
	"github.com/lima-vm/lima/v2/pkg/instance"
	"github.com/lima-vm/lima/v2/pkg/limatype"
	"github.com/lima-vm/lima/v2/pkg/store"
	"github.com/sirupsen/logrus"

	"agentbox/agentbox"
	"agentbox/agentbox/lima"
)

// maxDescription bounds a lima.yaml on standard input, in bytes.
const maxDescription = 1 << 20

func main() {
	logrus.SetFormatter(new(logrus.JSONFormatter))
	// No signals: Lima kills the host agent when the context ends, and it has to outlive us.
	ctx := context.Background()
	var err error
	if len(os.Args) > 1 && os.Args[1] == "hostagent" {
		err = hostAgent(ctx, os.Args[2:])
	} else if len(os.Args) != 3 {
		err = errors.New("usage: agentbox-lima inspect|create|start|stop|delete NAME")
	} else {
		err = run(ctx, os.Args[1], os.Args[2], os.Stdin, os.Stdout)
	}
	if err != nil {
		code := agentbox.CodeOf(err)
		if code == agentbox.Internal {
			code = "" // Lima's own; package lima knows some of them by their words
		}
		logrus.WithField(lima.Failed, code).Fatal(err)
	}
}

func run(ctx context.Context, act, name string, stdin io.Reader, stdout io.Writer) error {
	if act == "create" {
		return create(ctx, name, stdin, stdout)
	}
	inst, err := store.Inspect(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return agentbox.Errorf(agentbox.NotFound, "there is no Lima machine %s", name)
	} else if err != nil {
		return err
	}
	switch act {
	case "inspect":
	case "start":
		err = start(ctx, inst)
	case "stop":
		err = stop(ctx, inst)
	case "delete":
		err = instance.Delete(ctx, inst, true)
		inst.Status = limatype.StatusUninitialized
		return errors.Join(err, answer(stdout, inst))
	default:
		return fmt.Errorf("agentbox-lima: no act %s", act)
	}
	if err == nil {
		inst, err = store.Inspect(ctx, name)
	}
	if err != nil {
		return err
	}
	return answer(stdout, inst)
}

func create(ctx context.Context, name string, stdin io.Reader, stdout io.Writer) error {
	text, err := io.ReadAll(io.LimitReader(stdin, maxDescription))
	if err != nil {
		return err
	}
	if _, err := store.Inspect(ctx, name); err == nil {
		return agentbox.Errorf(agentbox.Exists, "there is a Lima machine %s already", name)
	}
	inst, err := instance.Create(ctx, name, text, false)
	if err != nil {
		return err
	}
	return answer(stdout, inst)
}

// emulatedStart is how long an emulated machine may take to start; Lima gives a real one ten minutes.
const emulatedStart = time.Hour

// start starts a machine. One of which a crash left a part is cleared: Lima calls it broken, and
// would not start it.
func start(ctx context.Context, inst *limatype.Instance) error {
	if inst.Config == nil {
		return agentbox.Errorf(agentbox.Conflict, "this version of Lima cannot read the machine, which %s made: %w", orUnknown(inst.LimaVersion), errors.Join(inst.Errors...))
	}
	switch inst.Status {
	case limatype.StatusRunning:
		return nil
	case limatype.StatusBroken:
		instance.StopForcibly(inst)
	}
	if slow, err := emulate(ctx, *inst.Config.Arch); err != nil {
		return err
	} else if slow {
		ctx = instance.WithWatchHostAgentTimeout(ctx, emulatedStart)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return instance.StartWithPaths(ctx, inst, false, false, self, "")
}

// stop asks the machine to shut down, and ends it if it does not.
func stop(ctx context.Context, inst *limatype.Instance) error {
	if inst.Status == limatype.StatusStopped {
		return nil
	}
	if inst.Status == limatype.StatusRunning {
		err := instance.StopGracefully(ctx, inst, false)
		if err == nil {
			return nil
		}
		logrus.WithError(err).Warn("it does not shut down")
	}
	instance.StopForcibly(inst)
	return nil
}

func orUnknown(version string) string {
	if version == "" {
		return "one before 0.20"
	}
	return version
}

func answer(w io.Writer, inst *limatype.Instance) error {
	a := lima.Instance{
		Name: inst.Name, Status: inst.Status, Directory: inst.Dir, Driver: inst.VMType, CPUs: inst.CPUs, Memory: inst.Memory, Disk: inst.Disk,
		SSHConfig: inst.SSHConfigFile, Host: inst.Hostname, Port: inst.SSHLocalPort, Lima: strings.TrimSpace(inst.LimaVersion),
	}
	for _, err := range inst.Errors {
		a.Errors = append(a.Errors, err.Error())
	}
	return json.NewEncoder(w).Encode(a)
}
