package setup

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
	"agentbox/policy/registries"
	"agentbox/vmm/image"
)

// Registries know where this machine takes packages from.
type Registries interface {
	// Unanswered are the questions about some ecosystems that nobody has answered.
	Unanswered(ctx context.Context, ecosystems []string) []registries.Question
	// Record takes answers, by question. They are those of a clean box: whom a repository could
	// have told what to say is not asked.
	Record(answers map[string]string) error
	// GiveUp leaves questions alone that could not be asked.
	GiveUp(questions []registries.Question)
}

// askRegistries finds out where the tools that a repository asks for take packages from, as far as
// neither the files nor the tools of this machine say it: the distribution's tools say it, in a
// clean box of an image into which nothing of the repository came. What cannot be found out is
// told; the box is made all the same. equipped tells whether base has the tools that come from
// registries themselves; only these are asked then. One box at a time asks, so that none asks what
// another just learns.
func (s *Setup) askRegistries(ctx context.Context, req Request, base image.Image, equipped bool, progress agentbox.Progress) {
	defer s.keys.Lock("registries")()
	questions := slices.DeleteFunc(s.unanswered(ctx, req), func(q registries.Question) bool { return (q.Package == "") != equipped })
	if len(questions) == 0 {
		return
	}
	end := progress.Begin("registries", "where "+ecosystems(questions)+" is had from, as this machine does not say")
	b, err := req.Empty(ctx, base, progress)
	if err == nil {
		err = errors.Join(s.askIn(ctx, b.Box, questions, toolchain.Installed(base.Versions)), b.Remove())
	}
	if err == nil {
		end(ecosystems(questions))
		return
	}
	s.Registries.GiveUp(questions)
	progress.Say("cannot find out where " + ecosystems(questions) + " is had from, so boxes reach what agentbox policy allow permits: " + err.Error())
}

// unanswered are the questions of what a repository asks for that a clean box is still to answer:
// none where its image has files that the repository chose.
func (s *Setup) unanswered(ctx context.Context, req Request) []registries.Question {
	if len(req.Config.Include) > 0 {
		return nil
	}
	return s.Registries.Unanswered(ctx, req.Config.Toolchain.Ecosystems())
}

// ecosystems are the names of what is asked about, for a message.
func ecosystems(questions []registries.Question) string {
	var names []string
	for _, q := range questions {
		names = append(names, q.Ecosystem)
	}
	return strings.Join(slices.Compact(names), ", ")
}

// askIn asks the tools of a clean box, which it gets where its image has them not, and records the
// answers. Nothing of the repository is in that box, so the answers are the distribution's.
func (s *Setup) askIn(ctx context.Context, b Box, questions []registries.Question, installed toolchain.Candidates) error {
	var missing []string
	for _, q := range questions {
		if q.Package != "" && installed[q.Package] == "" {
			missing = append(missing, q.Package)
		}
	}
	if len(missing) > 0 {
		install := append([]string{"apt-get", "-q", "-y", "--no-install-recommends", "install"}, slices.Compact(missing)...)
		for _, argv := range [][]string{{"apt-get", "-q", "update"}, install} {
			if err := s.asRoot(ctx, b, nil, argv...); err != nil {
				return err
			}
		}
	}
	answers := map[string]string{}
	for _, q := range questions {
		var said bytes.Buffer
		if err := s.asRoot(ctx, b, &said, q.Argv...); err != nil {
			return err
		}
		answers[q.Key()] = strings.TrimSpace(said.String())
	}
	return s.Registries.Record(answers)
}
