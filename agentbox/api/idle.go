package api

import "time"

// The calls about what this machine does for others.
var (
	// SetIdle replaces the policy.
	SetIdle = Endpoint[IdlePolicy, IdleStatus]{"/v1/idle/set"}
	// ShowIdle measures, and says what follows.
	ShowIdle = Endpoint[None, IdleStatus]{"/v1/idle/show"}
)

// IdlePolicy says when this machine runs tasks of other members. The zero policy is never.
type IdlePolicy struct {
	Allowed bool `json:"allowed"`
	Always  bool `json:"always,omitempty"` // even while somebody works at it
	// From and To bound the time of day, as 19:00 and 07:00; "" is at any time.
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`
	Members []string `json:"members,omitempty"` // names of peers; none means all
	Tasks   int      `json:"tasks,omitempty"`   // at once; 0 is 1
	Battery bool     `json:"battery,omitempty"` // on battery, too
	Labels  []string `json:"labels,omitempty"`  // for task submit --where label=NAME
}

// IdleFacts are what was measured; nil for what this machine cannot tell.
type IdleFacts struct {
	Now      time.Time  `json:"now"`
	Load     *float64   `json:"load,omitempty"`     // part of the CPUs in use: for a minute, or since the last task of others ended
	Pressure *float64   `json:"pressure,omitempty"` // percent of that time in which something waited for a CPU
	Input    *time.Time `json:"input,omitempty"`    // somebody uses it since then; zero: nobody does
	Lid      *bool      `json:"lid_closed,omitempty"`
	Battery  *bool      `json:"on_battery,omitempty"`
	Metered  *bool      `json:"metered,omitempty"`  // who pays for its network pays by the byte
	Sleeping bool       `json:"sleeping,omitempty"` // it is about to, or has just woken up
	Running  int        `json:"running"`            // tasks of others, which make load themselves
}

// IdleReason is why this machine takes no task.
type IdleReason string

// The reasons.
const (
	IdleDenied   IdleReason = "denied"
	IdleHours    IdleReason = "hours"
	IdleInput    IdleReason = "input"
	IdleLoad     IdleReason = "load"
	IdlePressure IdleReason = "pressure"
	IdleBattery  IdleReason = "battery"
	IdleFull     IdleReason = "full"
	IdleSleep    IdleReason = "sleep"
	IdleMetered  IdleReason = "metered"
)

// IdleBoxes is how boxes of others give way to what this machine's owner runs.
type IdleBoxes struct {
	Nice   int  `json:"nice"`   // as nice(1) has it, of each box's processes together
	Idle   bool `json:"idle"`   // they get only what nobody else wants (SCHED_IDLE)
	Group  bool `json:"group"`  // each box has a control group
	Memory bool `json:"memory"` // with memory.high; where not, only the machine's size bounds it
}

// IdleStatus is the policy, the facts and what follows: reasons against, none if it takes tasks.
type IdleStatus struct {
	Policy  IdlePolicy   `json:"policy"`
	Facts   IdleFacts    `json:"facts"`
	Against []IdleReason `json:"against"`
	// Busy are the reasons against work that can wait, of this machine's own user.
	Busy  []IdleReason `json:"busy"`
	Boxes IdleBoxes    `json:"boxes"`
}
