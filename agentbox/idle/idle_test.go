package idle

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

func at(hour, minute int) time.Time { return time.Date(2026, 11, 27, hour, minute, 0, 0, time.Local) }

func TestDecide(t *testing.T) {
	allowed := api.IdlePolicy{Allowed: true}
	night := api.IdlePolicy{Allowed: true, From: "19:00", To: "07:00"}
	here := at(11, 0)
	for name, c := range map[string]struct {
		p    api.IdlePolicy
		f    api.IdleFacts
		want []api.IdleReason
	}{
		"off until its owner says otherwise": {api.IdlePolicy{}, api.IdleFacts{}, []api.IdleReason{api.IdleDenied}},
		"a server, of which little is known": {allowed, api.IdleFacts{}, nil},
		"busy":                               {allowed, api.IdleFacts{Load: new(0.9), Pressure: new(60.0)}, []api.IdleReason{api.IdleLoad, api.IdlePressure}},
		"busy with what others run":          {api.IdlePolicy{Allowed: true, Tasks: 2}, api.IdleFacts{Load: new(0.9), Pressure: new(60.0), Running: 1}, nil},
		"full":                               {allowed, api.IdleFacts{Running: 1}, []api.IdleReason{api.IdleFull}},
		"somebody is here":                   {allowed, api.IdleFacts{Input: &here}, []api.IdleReason{api.IdleInput}},
		"nobody is here":                     {allowed, api.IdleFacts{Input: &time.Time{}}, nil},
		"always":                             {api.IdlePolicy{Allowed: true, Always: true}, api.IdleFacts{Input: &here, Load: new(0.9)}, nil},
		"about to sleep":                     {api.IdlePolicy{Allowed: true, Always: true}, api.IdleFacts{Sleeping: true}, []api.IdleReason{api.IdleSleep}},
		"on battery":                         {allowed, api.IdleFacts{Battery: new(true)}, []api.IdleReason{api.IdleBattery}},
		"on battery, allowed":                {api.IdlePolicy{Allowed: true, Battery: true}, api.IdleFacts{Battery: new(true)}, nil},
		"by day":                             {night, api.IdleFacts{Now: at(7, 0)}, []api.IdleReason{api.IdleHours}},
		"in the evening":                     {night, api.IdleFacts{Now: at(19, 0)}, nil},
		"after midnight":                     {night, api.IdleFacts{Now: at(6, 59)}, nil},
		"hours within a day":                 {api.IdlePolicy{Allowed: true, From: "09:00", To: "12:00"}, api.IdleFacts{Now: at(12, 0)}, []api.IdleReason{api.IdleHours}},
	} {
		if got := Decide(c.p, c.f); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := Busy(allowed, api.IdleFacts{Metered: new(true)}); !slices.Equal(got, []api.IdleReason{api.IdleMetered}) {
		t.Errorf("paid by the byte: %v", got)
	}
	if got := Busy(allowed, api.IdleFacts{Metered: new(false)}); len(got) != 0 {
		t.Errorf("not paid by the byte: %v", got)
	}
	if got := Ends(allowed, api.IdleFacts{Load: new(5.0), Running: 9}); len(got) != 0 {
		t.Errorf("what runs ends for its own load: %v", got)
	}
}

func TestPolicy(t *testing.T) {
	s := Settings{File: filepath.Join(t.TempDir(), "idle.json"), Running: func() int { return 0 }, Meter: new(Meter)}
	if now, err := s.Status(t.Context()); err != nil || !slices.Contains(now.Against, api.IdleDenied) {
		t.Errorf("%+v, %v", now, err)
	}
	for _, bad := range []api.IdlePolicy{{From: "7:00", To: "19:00"}, {From: "19:00"}, {From: "25:00", To: "26:00"}, {Tasks: -1}} {
		if _, err := s.Set(t.Context(), bad, nil); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := s.Set(t.Context(), api.IdlePolicy{Allowed: true, Members: []string{"ann"}}, nil); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Policy(); err != nil || !Serves(p, "ann") || Serves(p, "bob") || Serves(api.IdlePolicy{}, "ann") {
		t.Errorf("%+v, %v", p, err)
	}
	if err := os.WriteFile(s.File, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Policy(); err == nil || p.Allowed {
		t.Errorf("a damaged policy allows: %+v", p)
	}
}
