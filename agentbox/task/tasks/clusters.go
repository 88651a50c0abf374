package tasks

import (
	"cmp"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
	"agentbox/agentbox/home"
	"agentbox/agentbox/kube"
	"agentbox/agentbox/task"
)

func resolveCluster(h home.Home, spec *agentbox.TaskSpec) error {
	settings, err := kube.Load(h.Kubernetes())
	if err != nil {
		return err
	}
	if spec.Where, err = settings.Resolve(spec.Where); err != nil {
		return err
	}
	l := spec.Limits
	switch {
	case l.Idle > 0 || l.CPU > 0 || l.Cost > 0 || l.Tokens > 0:
		return agentbox.Errorf(agentbox.Invalid, "of the limits, a pod has --timeout only").WithHint("leave out the others, or --where %s", spec.Where)
	case spec.TTY:
		return agentbox.Errorf(agentbox.Invalid, "a pod's command gets no terminal").WithHint("leave out --tty")
	}
	return nil
}

// podText is said at each submission.
const podText = "in a pod, the policy's names are not held, there are no secrets, no services: and no artifacts:, and what setup: does is done anew"

// podNeed is what is asked of a cluster: what somebody said, since this machine's size is no measure there.
func podNeed(cfg *config.Config, spec agentbox.TaskSpec) task.Need {
	need := task.Need{CPUs: cmp.Or(spec.CPUs, cfg.CPUs, cfg.Least.CPUs), Memory: cmp.Or(cfg.Memory, cfg.Least.Memory)}
	if spec.Memory != "" {
		need.Memory, _ = config.ParseSize(spec.Memory) // already validated
	}
	return need
}
