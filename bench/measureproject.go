package bench

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"agentbox/agentbox"
)

// ProjectOptions are the choices of `agentbox bench REPO`.
type ProjectOptions struct {
	Native      bool   // run the commands on the machine itself, too
	Peers       bool   // run them by other programs of this kind, too, and on the machine itself
	Quick       bool   // end after quickTime
	Fidelity    bool   // say what works of a workstation in its boxes
	Concurrency string // how many agents work at once: numbers separated by commas
	Load        string // a file with what these do (readLoad); "" for the usual
}

const (
	// quickTime leaves a minute for the first boxes, which are not cut short.
	quickTime = 4 * time.Minute
	mostBoxes = 64
)

// MeasureProject measures the repository of a directory.
func (r *Run) MeasureProject(ctx context.Context, dir string, o ProjectOptions) error {
	crowds, err := parseCrowds(o.Concurrency)
	if err == nil && o.Load != "" && len(crowds) == 0 {
		err = agentbox.Errorf(agentbox.Invalid, "--profile is what several agents do").WithHint("say how many: --concurrency 2,4")
	}
	if err != nil {
		return err
	}
	p, err := r.OpenProject(ctx, dir)
	if err != nil {
		return err
	}
	load := usualLoad(p.Commands)
	if o.Load != "" {
		if load, err = readLoad(o.Load, p.Commands); err != nil {
			return err
		}
	}
	kinds, err := r.Kinds(ctx)
	if err != nil {
		return err
	}
	if o.Quick {
		r.Budget = quickTime
	}
	r.Pressure = true
	var labs []*Lab
	for _, kind := range kinds {
		lab, openErr := Open(ctx, r.LabConfig(kind))
		if openErr != nil {
			err = openErr
			break
		}
		labs = append(labs, lab)
	}
	if err == nil && o.Peers {
		r.findPeers(ctx, p, labs[0])
	}
	if err == nil {
		err = r.measureIn(ctx, p, labs, o.Native || o.Peers, crowds, load)
	}
	if err == nil && o.Fidelity {
		err = r.checkProject(ctx, p, labs)
	}
	for _, lab := range labs {
		err = errors.Join(err, lab.Close(ctx))
	}
	return err
}

func (r *Run) measureIn(ctx context.Context, p *Project, labs []*Lab, native bool, crowds []int, load agentLoad) error {
	all := p.Scenarios(labs, native)
	for _, n := range crowds {
		all = append(all, p.Together(labs, native, n, load)...)
	}
	if err := r.Measure(ctx, all); err != nil {
		return err
	}
	r.Report.Phases = p.phases
	for _, lab := range labs {
		accel := lab.accel(ctx)
		for i := range r.Report.Scenarios {
			if s := &r.Report.Scenarios[i]; s.Isolation == string(lab.kind) {
				s.Accel = accel
			}
		}
	}
	return nil
}

// accel returns the accelerator of the boxes; "" where there is none, or no box.
func (l *Lab) accel(ctx context.Context) string {
	boxes, err := l.Plain.boxes(ctx)
	if err != nil || len(boxes) == 0 {
		return ""
	}
	return boxes[0].Accel
}

// parseCrowds parses how many agents work at once. One is what is measured anyway.
func parseCrowds(text string) (out []int, err error) {
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > mostBoxes {
			return nil, agentbox.Errorf(agentbox.Invalid, "--concurrency: %q is not a number from 1 to %d", word, mostBoxes).WithHint("for example --concurrency 1,4")
		}
		if n > 1 {
			out = append(out, n)
		}
	}
	return out, nil
}
