import { useState } from 'preact/hooks';
import { ChangeDialog } from './kit/dialog.tsx';
import { lengthText, ownZone, say, Time } from './kit/format.tsx';
import { Icon } from './kit/icon.tsx';
import { Menu } from './kit/menu.tsx';
import { Segments } from './kit/segments.tsx';
import { THEMES, useTheme } from './kit/theme.ts';
import { hasUnsavedDraft } from './plans-kept.ts';
import { listAsked } from './shortcuts.tsx';
import { signOut, useSession } from './signed-in.tsx';

/** Who is signed in, how the page looks, and how to leave. */
export function Account() {
  const { name, role } = useSession();
  const button = (
    <>
      <Icon of="user" />
      <span>{name}</span> <span class="tag">{role}</span>
      <Icon of="down" />
    </>
  );
  // The sign-out that would lose a draft: everywhere or here. Null while none is asked for.
  const [asked, setAsked] = useState<{ readonly everywhere: boolean } | null>(null);
  const leave = (everywhere: boolean, close: () => void) => {
    if (!hasUnsavedDraft()) return void signOut(everywhere);
    // First, so that the focus returns to its button after the dialog.
    close();
    setAsked({ everywhere });
  };
  return (
    <>
      <Menu button={button}>
        {(close: () => void) => (
          <AccountMenu
            leave={(everywhere: boolean) => leave(everywhere, close)}
            list={() => {
              close();
              listAsked.send();
            }}
          />
        )}
      </Menu>
      {asked !== null && <LosesDraft {...asked} onClose={() => setAsked(null)} />}
    </>
  );
}

function LosesDraft({ everywhere, onClose }: { everywhere: boolean; onClose: () => void }) {
  const act = async () => {
    await signOut(everywhere);
    return null;
  };
  return (
    <ChangeDialog
      title="Sign out without the draft of plans.yaml?"
      action="Sign out and lose it"
      isDangerous={true}
      act={act}
      onClose={onClose}
    >
      <p>Your changes are in no file yet, and are lost when you sign out{everywhere && ' everywhere'}.</p>
    </ChangeDialog>
  );
}

function AccountMenu({ leave, list }: { leave: (everywhere: boolean) => void; list: () => void }) {
  const { name, role, via, expiresAt, idleSeconds } = useSession();
  const [theme, choose] = useTheme();
  return (
    <>
      <div class="who">
        <p>
          <strong>
            <bdi>{name}</bdi>
          </strong>
        </p>
        <p class="muted">{say`Role ${role}, times in ${ownZone()}`}</p>
        {expiresAt !== null && (
          <p class="muted">
            Signed in until <Time at={expiresAt} />
            {idleSeconds !== null && `, or ${lengthText(idleSeconds)} without use`}
          </p>
        )}
      </div>
      <div>
        <h2>Theme</h2>
        <Segments label="Theme" options={THEMES} value={theme} choose={choose} />
      </div>
      <div>
        <button type="button" onClick={list}>
          <Icon of="explain" />
          Keyboard shortcuts <kbd>?</kbd>
        </button>
        <a href="/admin/openapi.json">{say`${<Icon of="book" />}The admin API (OpenAPI)`}</a>
        <p class="muted">{say`Documents: ${<code>tollgate docs</code>}`}</p>
      </div>
      <div>
        {via === 'proxy' ? (
          <p class="muted">Your proxy signs you in and out.</p>
        ) : (
          <>
            <button type="button" onClick={() => leave(false)}>{say`${<Icon of="out" />}Sign out`}</button>
            <button type="button" onClick={() => leave(true)}>{say`${<Icon of="out" />}Sign out everywhere`}</button>
          </>
        )}
      </div>
    </>
  );
}
