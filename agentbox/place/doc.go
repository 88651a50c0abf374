// Package place says what it takes to run a box somewhere. It runs nothing itself: place/local has
// the machines of this host, place/ssh accounts of machines that stock sshd serves. What decides
// about boxes (host, task) knows only these interfaces.
//
// Words:
//
//   - A Kind makes the places of one kind of isolation. It is safe for concurrent use.
//   - A box has an ID, a workspace that lasts as long as the box does, and lives, numbered from 1.
//     Its record is kept by package host, and says what the box should be.
//   - A Place is one life of a box: from Create, or Recover after a restart of this process, until
//     Done is closed. A box has one at a time. What it writes outside of the workspace lasts as long
//     as the life, unless it is saved.
//   - A Session is a way in for one user: commands, terminals, files.
//   - An ability is a small interface that some kinds or places have besides, found by a type
//     assertion. What a kind has no ability for cannot be done with its boxes, and the user is told
//     so. A place without Enforcer has an open network: a box gets one only if somebody approved it.
//
// The order of calls: Fill makes the workspace, Create begins a life beside it, limits and policy come
// into force (Enforcer), Start turns the place into the box. Stop ends the life; another Create
// begins the next. Remove drops what is left.
//
// Errors are those of agentbox with a code: Missing (what the kind needs is not on this machine),
// Invalid (the spec makes no sense for this kind), Conflict (another life is going on, or the state
// does not fit), NotFound, Unavailable (it does not answer, or has ended: Error.End says how),
// NoSpace, Corrupt. After any error of Create nothing runs. An error of Start leaves a place that can
// only be stopped.
//
// tools/suites/placetest has the suite that every kind must pass, and a fake that passes it.
package place
