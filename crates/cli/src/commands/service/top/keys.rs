//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::{Mode, Pane, Screen};

/// What is to be done about a key beyond drawing anew.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Leave.
    Quit,
    /// Ask the server now.
    Look,
    Cancel(String),
}

/// Takes a key in.
pub(super) fn press(screen: &mut Screen, key: KeyEvent) -> Action {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Action::Quit;
    }
    screen.message = None;
    match screen.mode.clone() {
        Mode::Look => look(screen, key.code),
        Mode::Filter => {
            match key.code {
                KeyCode::Enter => screen.mode = Mode::Look,
                KeyCode::Esc => {
                    screen.filter.clear();
                    screen.mode = Mode::Look;
                }
                KeyCode::Backspace => {
                    screen.filter.pop();
                }
                KeyCode::Char(c) => screen.filter.push(c),
                _ => {}
            }
            screen.settle();
            Action::Nothing
        }
        Mode::Confirm(id) => {
            screen.mode = Mode::Look;
            if matches!(key.code, KeyCode::Char('y' | 'Y')) { Action::Cancel(id) } else { Action::Nothing }
        }
    }
}

fn look(screen: &mut Screen, key: KeyCode) -> Action {
    /// Rows that a page key moves.
    const PAGE: isize = 10;
    match key {
        KeyCode::Char('q') => return Action::Quit,
        KeyCode::Tab | KeyCode::BackTab => {
            screen.pane = if screen.pane == Pane::Jobs { Pane::Nodes } else { Pane::Jobs };
            return Action::Nothing;
        }
        KeyCode::Down | KeyCode::Char('j') => screen.step(1),
        KeyCode::Up | KeyCode::Char('k') => screen.step(-1),
        KeyCode::PageDown => screen.step(PAGE),
        KeyCode::PageUp => screen.step(-PAGE),
        KeyCode::Home => screen.step(isize::MIN),
        KeyCode::End => screen.step(isize::MAX),
        KeyCode::Char('/') => {
            screen.mode = Mode::Filter;
            return Action::Nothing;
        }
        KeyCode::Esc => {
            screen.filter.clear();
            screen.settle();
            return Action::Nothing;
        }
        KeyCode::Char('c') => {
            if let Some(id) =
                screen.selected_job().map(|job| job.id.clone()).filter(|_| screen.pane == Pane::Jobs)
            {
                screen.mode = Mode::Confirm(id);
            }
            return Action::Nothing;
        }
        _ => return Action::Nothing,
    }
    // The reason of the newly selected job is asked for at once.
    if screen.pane == Pane::Jobs { Action::Look } else { Action::Nothing }
}

#[cfg(test)]
mod tests {
    use super::super::draw::tests::sample;
    use super::*;

    fn key(screen: &mut Screen, code: KeyCode) -> Action {
        press(screen, KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn the_selection_stays_within_the_list() {
        let mut screen = sample();
        let first = screen.job.clone();
        assert_eq!(key(&mut screen, KeyCode::Up), Action::Look);
        assert_eq!(screen.job, first);
        key(&mut screen, KeyCode::Down);
        assert_ne!(screen.job, first);
        key(&mut screen, KeyCode::End);
        key(&mut screen, KeyCode::Down);
        assert_eq!(screen.job.as_deref(), screen.jobs().last().map(|job| job.id.as_str()));
        key(&mut screen, KeyCode::Home);
        assert_eq!(screen.job, first);
    }

    #[test]
    fn cancelling_needs_a_yes() {
        let mut screen = sample();
        let id = screen.job.clone().unwrap();
        key(&mut screen, KeyCode::Char('c'));
        assert_eq!(screen.mode, Mode::Confirm(id.clone()));
        assert_eq!(key(&mut screen, KeyCode::Enter), Action::Nothing);
        key(&mut screen, KeyCode::Char('c'));
        assert_eq!(key(&mut screen, KeyCode::Char('y')), Action::Cancel(id));
        screen.pane = Pane::Nodes;
        key(&mut screen, KeyCode::Char('c'));
        assert_eq!(screen.mode, Mode::Look);
    }

    #[test]
    fn filters_narrow_what_is_shown_and_keep_a_selection() {
        let mut screen = sample();
        for c in ['/', 't', 'r', 'a', 'i', 'n'] {
            key(&mut screen, KeyCode::Char(c));
        }
        assert_eq!(screen.jobs().len(), 1);
        assert_eq!(screen.selected_job().and_then(|job| job.name.as_deref()), Some("train"));
        // Letters of a filter are no orders.
        assert_eq!(key(&mut screen, KeyCode::Char('q')), Action::Nothing);
        key(&mut screen, KeyCode::Esc);
        assert_eq!(screen.jobs().len(), 3);
        assert_eq!(key(&mut screen, KeyCode::Char('q')), Action::Quit);
    }

    #[test]
    fn ctrl_c_always_leaves() {
        let mut screen = sample();
        screen.mode = Mode::Filter;
        assert_eq!(
            press(&mut screen, KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
            Action::Quit
        );
    }
}
