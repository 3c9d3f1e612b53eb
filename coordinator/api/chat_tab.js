// ---- the chat: chat_tab.js, which is joined to the script of the status page ----

const CHAT_POLL_MS = 300;
const conversation = [];  // messages of OpenAI's form
let httpAddress = '', answering = null;  // an AbortController

const showTab = name => {
  for (const tab of ['status', 'chat']) {
    byId(tab).hidden = tab !== name;
    byId(`to-${tab}`).setAttribute('aria-selected', tab === name);
  }
  if (name === 'status') layOutCards();
};
const tabOfAddress = () => showTab(location.hash === '#chat' ? 'chat' : 'status');
const keyHeader = () => {
  const key = byId('api-key').value.trim();
  return key === '' ? {} : {Authorization: `Bearer ${key}`};
};

// The API may be at another port than this page: then a link leads to it.
function showWhereChatIs(report) {
  httpAddress = report.http_address;
  const port = httpAddress.split(':').at(-1);
  const protocol = report.http_has_tls ? 'https:' : 'http:';
  const isHere = httpAddress !== '' && port === location.port;
  byId('chat-form').hidden = !isHere;
  byId('chat-elsewhere').hidden = isHere;
  if (isHere) return;
  byId('chat-elsewhere').replaceChildren(...(httpAddress === ''
      ? ['This server has no HTTP API (', make('code', {}, 'http_listen'), ').']
      : ['The chat is where the HTTP API is: ',
         make('a', {href: `${protocol}//${location.hostname}:${port}/${address()}#chat`}, `port ${port}`), '.']));
}

// Yields the objects of a stream of server-sent events.
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data: ') && line !== 'data: [DONE]') yield JSON.parse(line.slice(6));
    }
  }
}

// Adds the rounds that are new; the server keeps the latest ones only.
function addRounds(answer, request) {
  const known = answer.rounds.at(-1)?.step ?? 0;
  const fresh = request.latest.filter(round => round.step > known);
  if (fresh.length > 0 && fresh[0].step !== known + 1) answer.rounds = [];
  answer.rounds.push(...fresh);
  answer.request = request;
}

async function fetchRounds(answer) {
  if (answer.id === '') return;
  const response = await fetch(`espalier/rounds/${answer.id}`, {headers: keyHeader()});
  if (response.ok) addRounds(answer, await response.json());
  paint(answer);
}

// The tokens of the known rounds, as far as they are the end of the text: what came before them, and
// what has come since, has no colour.
function paint(answer) {
  const tokens = answer.rounds.flatMap(round => ownersOfText(round, answer.request.drafters));
  const joined = count => tokens.slice(0, count).map(token => token.text).join('');
  let count = tokens.length;
  while (count > 0 && !answer.text.includes(joined(count))) --count;
  const begin = count > 0 ? answer.text.lastIndexOf(joined(count)) : answer.text.length;
  answer.body.replaceChildren(answer.text.slice(0, begin), ...tokens.slice(0, count).map(colored),
                              answer.text.slice(begin + joined(count).length));
  const last = answer.rounds.at(-1);
  if (last !== undefined) answer.tree.replaceChildren(showRound(last, answer.request));
}

function colored({text, owner}) {
  const color = owner === null ? MODEL_COLOR : colorOf(owner);
  const background = owner === null ? '' : `;background:${faded(color, 13)}`;
  return make('span', {title: owner ?? 'the model', style: `color:${color}${background}`}, text);
}

function showSummary(answer, done) {
  const {tau, rounds, timing, plain_round_ms: plain} = done;
  const seconds = (timing.total_ms - timing.time_to_first_token_ms) / 1000;
  const tokens = Math.round(tau * rounds);
  const speed = seconds > 0 ? (tokens - tau) / seconds : 0;
  answer.summary.textContent = `tau ${tau.toFixed(2)} · ${plural(tokens, 'token')} in ${plural(rounds, 'pass', 'passes')} · ` +
      `${perSecond(Math.max(0, speed))} tokens/s` + (plain > 0 ? `, plain decoding ${perSecond(1000 / plain)}` : '') +
      ` · first token after ${duration(timing.time_to_first_token_ms)}`;
}

function newAnswer() {
  const answer = {id: '', text: '', rounds: [], request: null, body: make('div', {class: 'body'}),
                  summary: make('div', {class: 'dim summary'}), tree: make('div', {})};
  byId('messages').append(make('div', {class: 'card answer'}, answer.body, answer.summary, answer.tree));
  return answer;
}

const requestBody = () => JSON.stringify({
  messages: conversation, stream: true, temperature: Number(byId('temperature').value) || 0,
  max_tokens: Number(byId('max-tokens').value) || 400,
  espalier: {enabled: byId('speculate').checked}});

async function readAnswer(answer) {
  const response = await fetch('v1/chat/completions', {
    method: 'POST', body: requestBody(), signal: answering.signal,
    headers: {'Content-Type': 'application/json', ...keyHeader()}});
  if (!response.ok) throw new Error((await response.json()).error.message);
  for await (const event of eventsOf(response)) {
    if (event.error) throw new Error(event.error.message);
    answer.id = event.id;
    const delta = event.choices[0]?.delta ?? {};
    answer.text += delta.reasoning_content ?? '';
    answer.text += delta.content ?? '';
    paint(answer);
    if (event.espalier) showSummary(answer, event.espalier);
  }
}

async function ask(question) {
  conversation.push({role: 'user', content: question});
  byId('messages').append(make('div', {class: 'card question'}, question));
  const answer = newAnswer();
  answering = new AbortController();
  byId('send').textContent = 'Stop';
  const timer = setInterval(() => fetchRounds(answer).catch(() => {}), CHAT_POLL_MS);
  try {
    await readAnswer(answer);
  } catch (error) {
    const what = error.name === 'AbortError' ? 'stopped' : error.message;
    answer.summary.replaceChildren(make('span', {class: 'problem'}, what));
  }
  clearInterval(timer);
  await fetchRounds(answer).catch(() => {});
  answering = null;
  byId('send').textContent = 'Send';
  if (answer.text === '') conversation.pop();
  else conversation.push({role: 'assistant', content: answer.text});
  document.body.dataset.answers = Number(document.body.dataset.answers ?? 0) + 1;
}

byId('chat-form').onsubmit = event => {
  event.preventDefault();
  if (answering !== null) return answering.abort();
  const question = byId('question').value.trim();
  if (question === '') return;
  byId('question').value = '';
  ask(question);
};
byId('question').onkeydown = event => {
  if (event.key !== 'Enter' || event.shiftKey) return;
  event.preventDefault();
  if (answering === null) byId('chat-form').requestSubmit();
};
byId('forget').onclick = () => {
  conversation.length = 0;
  byId('messages').replaceChildren();
};
byId('api-key').value = sessionStorage.getItem('espalier-key') ?? '';
byId('api-key').onchange = () => sessionStorage.setItem('espalier-key', byId('api-key').value);
addEventListener('hashchange', tabOfAddress);
tabOfAddress();
