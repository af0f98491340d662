//! Where a program runs and which file it is, found before anything is started.
//!
//! Invariant: the directory is held as a descriptor from the moment it was checked, so that what the child enters
//! is what was checked. Lacks: any change of the embedding program's own directory.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::launch::{LaunchError, LaunchRequest};

/// Searched where the request's environment has no `PATH`.
const PATH_DEFAULT: &[u8] = b"/usr/local/bin:/usr/bin:/bin";
/// How often a look-up that raced with a rename is tried again.
#[cfg(target_os = "linux")]
const BENEATH_TRIES: usize = 8;

#[cfg(any(target_os = "linux", target_os = "android"))]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens the working directory a request names.
///
/// Errors: `open_directory`, with the path as the caller gave it, made absolute.
pub(super) fn open_directory(request: &LaunchRequest) -> Result<OwnedFd, LaunchError> {
    let path = request.directory.join(&request.cwd);
    let fail = |error: Errno| LaunchError {
        operation: "open_directory",
        errno: error.raw_os_error(),
        path: Some(path.clone()),
        hint: directory_hint(error, &path, &request.directory),
    };
    let opened = if request.confined {
        open_beneath(&request.directory, &request.cwd)
    } else {
        rustix::fs::open(&path, DIRECTORY, Mode::empty())
    };
    let directory = opened.map_err(fail)?;
    // A path descriptor needs no permission on the directory itself; entering it does.
    rustix::fs::accessat(&directory, c".", Access::EXEC_OK, AtFlags::EACCESS).map_err(fail)?;
    Ok(directory)
}

fn directory_hint(error: Errno, path: &Path, session: &Path) -> String {
    let path = path.display();
    match error {
        Errno::NOENT => format!("The working directory {path} does not exist."),
        Errno::NOTDIR => format!("The working directory {path} is not a directory."),
        Errno::ACCESS | Errno::PERM => format!("The working directory {path} may not be entered by this user."),
        Errno::XDEV => {
            format!("The working directory {path} must lie inside {}, links resolved.", session.display())
        }
        Errno::LOOP => format!("The working directory {path} goes through too many links."),
        Errno::MFILE | Errno::NFILE => super::hints::out_of_descriptors(error),
        other => format!("The working directory {path} could not be opened: {other}."),
    }
}

/// Opens `cwd` inside `root`; XDEV where it leads outside.
fn open_beneath(root: &Path, cwd: &Path) -> Result<OwnedFd, Errno> {
    if !cwd.is_absolute() {
        let opened = beneath(root, cwd);
        // Also an absolute link inside leads "outside" for the kernel: where it really points decides.
        if !matches!(opened, Err(Errno::XDEV | Errno::NOSYS | Errno::PERM)) {
            return opened;
        }
    }
    let resolved_root = resolve(root)?;
    let resolved = resolve(&root.join(cwd))?;
    let inside = resolved.strip_prefix(&resolved_root).map_err(|_| Errno::XDEV)?;
    match beneath(&resolved_root, inside) {
        Err(Errno::NOSYS | Errno::PERM) => open_resolved(&resolved_root, &resolved),
        opened => opened,
    }
}

/// The kernel's own look-up that cannot leave `root`. NOSYS (also where a filter refuses it: PERM) = not here.
#[cfg(target_os = "linux")]
fn beneath(root: &Path, inside: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let root = rustix::fs::open(root, DIRECTORY, Mode::empty())?;
    let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 1..BENEATH_TRIES {
        match rustix::fs::openat2(&root, inside, DIRECTORY, Mode::empty(), rules) {
            Err(Errno::AGAIN) => {}
            opened => return opened,
        }
    }
    rustix::fs::openat2(&root, inside, DIRECTORY, Mode::empty(), rules)
}

#[cfg(not(target_os = "linux"))]
fn beneath(_root: &Path, _inside: &Path) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Opens a resolved path without following a link that has taken its place meanwhile, and looks again where the
/// descriptor ended up. Where the system cannot tell, a link put in a parent between the two is not noticed.
fn open_resolved(root: &Path, resolved: &Path) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd;
    let directory = rustix::fs::open(resolved, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    if cfg!(target_os = "linux") {
        let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
        if std::fs::read_link(link).is_ok_and(|now| !now.starts_with(root)) {
            return Err(Errno::XDEV);
        }
    }
    Ok(directory)
}

fn resolve(path: &Path) -> Result<PathBuf, Errno> {
    std::fs::canonicalize(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

/// Finds the file to execute, as the child will name it after entering `directory`.
///
/// Errors: `find_program`.
pub(super) fn find_program(request: &LaunchRequest, directory: &OwnedFd) -> Result<CString, LaunchError> {
    let Some(program) = request.argv.first() else {
        return Err(not_found(Errno::INVAL, c"", "The command is empty.".to_owned()));
    };
    if program.to_bytes().contains(&b'/') {
        return match executable(directory, program) {
            Ok(()) => Ok(program.clone()),
            Err(error) => Err(not_found(error, program, program_hint(error, program, directory))),
        };
    }
    search(request, directory, program)
}

fn search(request: &LaunchRequest, directory: &OwnedFd, program: &CStr) -> Result<CString, LaunchError> {
    let path = request.env.iter().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH=")).unwrap_or(PATH_DEFAULT);
    let mut refused = None;
    // An empty name would "find" the directories themselves.
    let entries = path.split(|byte| *byte == b':').filter(|_| !program.is_empty());
    for entry in entries {
        let mut candidate = if entry.is_empty() { b".".to_vec() } else { entry.to_vec() };
        candidate.push(b'/');
        candidate.extend_from_slice(program.to_bytes());
        let candidate = CString::new(candidate).expect("made of two strings without a NUL");
        match executable(directory, &candidate) {
            Ok(()) => return Ok(candidate),
            Err(Errno::ACCESS) => refused = refused.or(Some(candidate)),
            Err(_) => {}
        }
    }
    match refused {
        Some(candidate) => {
            Err(not_found(Errno::ACCESS, &candidate, program_hint(Errno::ACCESS, &candidate, directory)))
        }
        None => {
            let hint = format!("No program named {} is in PATH ({}).", lossy(program), String::from_utf8_lossy(path));
            Err(not_found(Errno::NOENT, program, hint))
        }
    }
}

/// Whether a regular file is there that this user may execute. ACCESS for a directory, as the kernel would say.
fn executable(directory: &OwnedFd, program: &CStr) -> Result<(), Errno> {
    let found = rustix::fs::statat(directory, program, AtFlags::empty())?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    rustix::fs::accessat(directory, program, Access::EXEC_OK, AtFlags::EACCESS)
}

fn program_hint(error: Errno, program: &CStr, directory: &OwnedFd) -> String {
    let name = lossy(program);
    let is_directory = rustix::fs::statat(directory, program, AtFlags::empty())
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory);
    match error {
        Errno::NOENT => format!("The program {name} does not exist."),
        Errno::ACCESS if is_directory => format!("{name} is a directory, not a program."),
        Errno::ACCESS => format!("{name} is not executable by this user."),
        other => format!("The program {name} could not be looked up: {other}."),
    }
}

fn not_found(error: Errno, program: &CStr, hint: String) -> LaunchError {
    LaunchError { operation: "find_program", errno: error.raw_os_error(), path: Some(as_path(program)), hint }
}

fn lossy(text: &CStr) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text.to_bytes())
}

/// The path a C string spells.
pub(super) fn as_path(text: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(text.to_bytes()))
}

/// Reads the beginning of the program's file, to explain why it could not be executed.
pub(super) fn beginning(directory: &OwnedFd, program: &CStr, bytes_max: usize) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::openat(directory, program, flags, Mode::empty())?;
    let mut text = vec![0; bytes_max];
    let read = rustix::io::read(&file, &mut text)?;
    text.truncate(read);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The way without the kernel's own look-up.
    fn check(root: &Path, resolved: &Path, expected: Result<(), Errno>) {
        assert_eq!(open_resolved(root, resolved).map(drop), expected, "{}", resolved.display());
    }

    #[test]
    fn a_resolved_path_that_changes_afterwards_is_not_followed_outside() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("in/deep")).unwrap();
        check(&root, &root, Ok(()));
        check(&root, &root.join("in/deep"), Ok(()));
        // Both stand for what was put there between resolving and opening.
        std::os::unix::fs::symlink("/usr", root.join("last")).unwrap();
        check(&root, &root.join("last"), Err(Errno::NOTDIR));
        if cfg!(target_os = "linux") {
            check(&root, &root.join("last/bin"), Err(Errno::XDEV));
        }
    }
}
