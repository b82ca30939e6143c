document.getElementById('page').textContent = 'procfleet';
