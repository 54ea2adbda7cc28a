// Package composetest holds what paidonce is shipped with (docker-compose.yml, the Dockerfile,
// the Kubernetes example, the CI workflow) against the code it ships.
//
// It is a module of its own, so that the parsers it needs are no dependency of a merchant's
// backend. It has tests only; .ci/run runs them. It needs no Docker: what the Dockerfile runs
// is run here, in a folder that holds what the builder would be sent. Run it with -count=1: what
// it reads lies outside of its module, where the go command does not see it change.
package composetest
