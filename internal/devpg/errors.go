package devpg

import "errors"

var (
	// ErrNoBinaries is returned by [FindBinaries] when no PostgreSQL is installed where it
	// looks, and by [Start] when none could be downloaded either.
	ErrNoBinaries = errors.New(`no PostgreSQL found; three ways out:
  1. set DATABASE_URL to a server that you have;
  2. install PostgreSQL: "apt-get install postgresql" or "brew install postgresql@17";
  3. set PAIDONCE_PG_BIN to the folder that holds initdb and postgres`)

	// ErrOtherMajor is returned by [Start] on a data folder that another major version made:
	// PostgreSQL does not read it.
	ErrOtherMajor = errors.New("the data folder was made by another major version of PostgreSQL")

	// ErrInUse is returned by [Start] when a live server, or another Start, has the
	// data folder.
	ErrInUse = errors.New("the data folder is in use by a live server")

	// ErrUnsupported is returned by [Start] on systems without Unix signals and sockets.
	ErrUnsupported = errors.New("a private PostgreSQL needs Linux, macOS or another Unix; set DATABASE_URL")
)
