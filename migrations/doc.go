// Package migrations holds the schema of paidonce and moves a database to it.
//
// It owns every table: its own SQL files and the queue's. It promises that any number
// of processes may call [Up] on one database at once: an advisory lock lets one of them
// work, the others wait and then find nothing to do. It runs on a small pool of its own,
// closed when it returns, so that a migration never takes a connection from the traffic.
// It will not guess: a database that is newer than the binary is [ErrAhead], and nothing
// is ever migrated down except by the command that says so.
//
// Each file opens with why its tables exist; each invariant of docs/tour.md that the
// database holds is a constraint with a name.
package migrations
