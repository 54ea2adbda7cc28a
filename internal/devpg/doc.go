// Package devpg runs a private PostgreSQL for the demo and for the tests, so that neither
// needs a container, an account or a password.
//
// It owns one cluster per [Server]: a data folder, a socket in a folder that only the
// server's user may enter, and the server process itself. It promises that
//
//   - it is a real database: fsync and full_page_writes are on, a committed row survives
//     kill -9 and a power cut. What is trimmed (memory, shared buffers) costs speed only;
//   - it runs as root too, where PostgreSQL refuses to: the server then runs as the owner
//     of the data folder, else as "postgres", else as "nobody";
//   - nothing outlives us. After [Server.Stop] there is no process and no temporary
//     folder. If we are killed, a small supervisor (see supervise.go) notices the end of a
//     pipe, stops the server and removes the temporary folder; a data folder that was to
//     be kept starts again with every committed row;
//   - one data folder has one server. A second [Start] on a live one is [ErrInUse] at
//     once; on one whose owner was killed it waits until the old server is gone; a
//     postmaster.pid that a dead server left is no obstacle;
//   - when initdb or the server fails, the error carries the last lines of its log.
//
// Where no PostgreSQL is installed it downloads one, once, into a cache of the user
// (download.go): the sum of each file is in the code, and a tree in the cache is whole.
// PAIDONCE_OFFLINE=1 forbids that.
//
// It will not install PostgreSQL into the system, read DATABASE_URL, change the permissions
// of folders that it did not make, or serve production: there is no backup, no TLS and no
// tuning here. It listens on TCP only when asked, on loopback, behind a random password.
// Windows has neither its signals nor its sockets: there [Start] says so.
//
// Read devpg.go first (Start, URL, Stop), then supervise.go; download.go stands by itself.
// Tests of other packages use devpgtest, which clones a migrated database per test.
package devpg
