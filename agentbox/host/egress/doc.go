// Package egress decides what boxes may reach: it composes the policy of each out of what the user,
// the organisation and the approved repository say, puts changes of it in force in running boxes,
// and keeps secrets and where they may be sent. It enforces nothing itself: the box's supervisor
// does, in its gateway.
//
// Policies is all of it. A policy has layers, each with its source, so that a verdict can say whose
// rule it was: the organisation's, which bounds all others; the user's, for one project and for
// all; the repository's, as far as it was approved; and the machine's, the registries and code
// hosts that the preset "balanced" allows. Which layers a box has follows from its Subject, which
// the host makes from its record.
//
// A change is in force when the call that made it returns, in every box that runs: a box that
// cannot be told is stopped (Tell). Values of secrets are never here but on their way to the
// keyring; what goes to a supervisor is where to get them, and values of variables that a caller's
// environment has, which are kept in memory only.
//
// It knows boxes and machines through interfaces of a few methods (Boxes, Box, Machine), and so it
// is tested without either.
package egress
